//! Scales of a plot: which part of an axis is shown, and where a value is on the page.

use crate::kit::drawing::{log_ticks, ticks};

/// About so many ticks has an axis.
const TICKS: usize = 6;
/// Where the lowest value is more than this share of the highest one, the axis does not begin at 0: the effect would be lost in
/// the upper part of the drawing.
const SMALL_EFFECT: f64 = 0.6;

/// One scale, which maps values to positions on the page.
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) log: bool,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Scale {
    pub(super) fn at(&self, value: f64) -> f64 {
        let map = |value: f64| if self.log { value.max(1e-300).log10() } else { value };
        let (low, high) = (map(self.low), map(self.high));
        let share = if high > low { (map(value) - low) / (high - low) } else { 0.5 };
        self.from + share.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log { log_ticks(self.low, self.high) } else { ticks(self.low, self.high, TICKS) }
    }

    /// The scale for names at 0, 1, 2 and so on.
    pub(super) const fn of_names(count: usize, from: f64, to: f64) -> Self {
        Self { low: -0.5, high: count as f64 - 0.5, log: false, from, to }
    }

    /// The scale for numbers along x. A small margin keeps the first and the last mark away from the axes.
    pub(super) fn of_x(
        values: impl Iterator<Item = f64> + Clone,
        log: bool,
        from: f64,
        to: f64,
    ) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        if log && low > 0.0 {
            let pad = (high / low).powf(0.03);
            return Self { low: low / pad, high: high * pad, log: true, from, to };
        }
        let pad = ((high - low) * 0.03).max(1e-9);
        Self { low: low - pad, high: high + pad, log: false, from, to }
    }

    /// The logarithmic scale for means with the ends of their intervals; `None` without any positive mean. An end
    /// that is far below its mean does not press all others together.
    pub(super) fn log_y(
        all: impl Iterator<Item = (f64, [f64; 2])>,
        from: f64,
        to: f64,
    ) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (mean, [least, most]) in all.filter(|(mean, _)| *mean > 0.0) {
            low = low.min(least.max(mean / 3.0));
            high = high.max(most);
        }
        low.is_finite().then(|| Self { low: low / 1.5, high: high * 1.5, log: true, from, to })
    }

    /// The scale for the ends of intervals along y. It begins at 0, unless the effect would then be small; of shares,
    /// it ends at 1 if they come near it.
    pub(super) fn of_y(
        ends: impl Iterator<Item = f64>,
        are_shares: bool,
        from: f64,
        to: f64,
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for end in ends {
            (least, most) = (least.min(end), most.max(end));
        }
        let is_small = least > SMALL_EFFECT * most && most - least > 1e-9 * most;
        let low = match is_small {
            // At a tick, so that the axis begins with a number.
            true => {
                let low = least - 0.06 * (most - least);
                let step = ticks(low, most, TICKS);
                let step = step.get(1).map_or(most - least, |second| second - step[0]);
                ((low / step).floor() * step).max(0.0)
            }
            false => least.min(0.0),
        };
        let margin = 0.06 * (most - low);
        let high = match are_shares && most + margin > 0.5 {
            true if is_small => (most + margin).min(1.0 + margin / 3.0),
            true => 1.02,
            false => most + margin,
        };
        Self { low, high: if high > low { high } else { low + 1.0 }, log: false, from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ends: &[f64], are_shares: bool) -> (f64, f64) {
        let scale = Scale::of_y(ends.iter().copied(), are_shares, 0.0, 1.0);
        ((scale.low * 1e6).round() / 1e6, (scale.high * 1e6).round() / 1e6)
    }

    #[test]
    fn an_axis_begins_at_nothing_unless_the_effect_would_be_small() {
        assert_eq!(shown(&[0.1, 0.9], true), (0.0, 1.02));
        assert_eq!(shown(&[0.1, 0.2], true), (0.0, 0.212));
        assert_eq!(shown(&[10.0, 100.0], false), (0.0, 106.0));
        assert_eq!(shown(&[-10.0, 90.0], false), (-10.0, 96.0));
        let (low, high) = shown(&[90.0, 100.0], false);
        assert!((88.0..90.0).contains(&low) && (100.0..102.0).contains(&high), "{low} {high}");
        let (low, high) = shown(&[0.95, 1.0], true);
        assert!((0.93..0.95).contains(&low) && (1.0..1.01).contains(&high), "{low} {high}");
        // What does not differ shows no effect.
        assert_eq!(shown(&[7.0, 7.0], false).0, 0.0);
        assert_eq!(shown(&[0.0], false), (0.0, 1.0));
    }
}
