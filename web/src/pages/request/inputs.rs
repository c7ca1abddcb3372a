//! Inputs of forms: each has its label, and what is wrong with its text beside it.

use maud::{Markup, html};

use super::fields::{LinkFields, Mistakes, RequestFields, SiteFields};
use crate::pages::words;

/// An input of one line.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::pages) struct Input<'a> {
    pub(in crate::pages) id: &'a str,
    pub(in crate::pages) name: &'a str,
    pub(in crate::pages) label: &'a str,
    pub(in crate::pages) value: &'a str,
    /// A text that it may have.
    pub(in crate::pages) example: &'a str,
    /// The id of the list of texts that are offered.
    pub(in crate::pages) list: Option<&'a str>,
    /// May the text only be looked at?
    pub(in crate::pages) is_fixed: bool,
}

impl<'a> Input<'a> {
    pub(in crate::pages) fn new(
        id: &'a str,
        name: &'a str,
        label: &'a str,
        value: &'a str,
        example: &'a str,
    ) -> Self {
        Self { id, name, label, value, example, ..Self::default() }
    }

    /// A text that can only be looked at.
    pub(in crate::pages) fn fixed(
        id: &'a str,
        name: &'a str,
        label: &'a str,
        value: &'a str,
    ) -> Self {
        Self { is_fixed: true, ..Self::new(id, name, label, value, "") }
    }

    /// The input, and what is wrong with it.
    pub(in crate::pages) fn markup(&self, mistakes: &Mistakes) -> Markup {
        let mistake = mistakes.of(self.id);
        let said = format!("{}-mistake", self.id);
        let example = Some(self.example).filter(|text| !text.is_empty());
        html! {
            div class="field" {
                label for=(self.id) { (self.label) }
                input id=(self.id) name=(self.name) value=(self.value) placeholder=[example] list=[self.list]
                    readonly[self.is_fixed] autocomplete="off" autocapitalize="none" spellcheck="false"
                    aria-invalid=[mistake.map(|_| "true")] aria-describedby=[mistake.map(|_| said.as_str())];
                (said_of(mistakes, self.id))
            }
        }
    }
}

/// What is wrong with an input.
pub(in crate::pages) fn said_of(mistakes: &Mistakes, input: &str) -> Markup {
    html! {
        @if let Some(text) = mistakes.of(input) {
            p class="mistake" id={ (input) "-mistake" } { (words::text(text)) }
        }
    }
}

/// How many things are wrong, with a link to each, on top of a form.
pub(in crate::pages) fn summary(mistakes: &Mistakes) -> Markup {
    let count = mistakes.0.len();
    let mut all: Vec<_> =
        mistakes.0.iter().map(|(input, text)| (caption(input), input, text)).collect();
    all.sort();
    html! {
        @if count > 0 {
            div class="trouble" role="alert" {
                p { (words::count(count, "field")) " cannot be read like this. Nothing was asked for." }
                ul {
                    @for ((_, caption), input, text) in &all {
                        li { a href={ "#" (input) } { (caption) } ": " (words::text(text)) }
                    }
                }
            }
        }
    }
}

/// Inputs in their order, by what labels call them. Those of rows come between sites and times.
const CAPTIONS: [(&str, &str); 12] = [
    ("sites", "Sites"),
    ("links", "Links"),
    ("after", "Start"),
    ("for", "Duration"),
    ("before", "Latest end"),
    ("zone", "Times are in"),
    ("name", "Name of the reservation"),
    ("user", "For the user"),
    ("first", "What matters most"),
    ("second", "And next"),
    ("solver", "Solver"),
    ("frames", "Starts to try"),
];

/// What a person calls an input, `Site 2, CPUs`, behind its place in the order of the form.
fn caption(input: &str) -> ((usize, usize), String) {
    let mut parts = input.splitn(3, '-');
    let (list, row, part) =
        (parts.next(), parts.next().and_then(|row| row.parse::<usize>().ok()), parts.next());
    if let (Some(list), Some(row), Some(part)) = (list, row, part) {
        let (place, thing) = if list == "site" { (0, "Site") } else { (1, "Link") };
        let part = match part {
            "cpus" => "CPUs",
            "others" => "further kinds",
            "latency" => "largest latency",
            other => other,
        };
        return ((place, row + 1), format!("{thing} {}, {part}", row + 1));
    }
    let known = CAPTIONS.iter().position(|(one, _)| *one == input);
    // The heads of lists stand before their rows.
    let place = known.map_or((CAPTIONS.len(), 0), |at| (at, 0));
    (place, known.map_or("The request", |at| CAPTIONS[at].1).to_owned())
}

/// A choice of one of several words; the first is the one that stands for none.
pub(in crate::pages) fn select(
    name: &str,
    label: &str,
    value: &str,
    choices: &[(&str, String)],
    mistakes: &Mistakes,
) -> Markup {
    html! {
        div class="field" {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                @for (word, text) in choices {
                    option value=(word) selected[*word == value] { (text) }
                }
            }
            (said_of(mistakes, name))
        }
    }
}

/// Names that the first sites may have.
const EXAMPLES: [&str; 4] = ["a", "b", "c", "d"];

/// The row of a requested site.
pub(in crate::pages) fn site_row(row: usize, site: &SiteFields, mistakes: &Mistakes) -> Markup {
    let ids = ["name", "cpus", "others", "place"].map(|name| format!("site-{row}-{name}"));
    let example = EXAMPLES.get(row).copied().unwrap_or_default();
    html! {
        fieldset class="row" {
            legend { "Site " (row + 1) }
            (Input::new(&ids[0], "site", "Name", &site.name, example).markup(mistakes))
            (Input::new(&ids[1], "cpus", "CPUs", &site.cpus, "4").markup(mistakes))
            (Input::new(&ids[2], "others", "Further kinds", &site.others, "storage=500GB").markup(mistakes))
            (Input { list: Some("places"), ..Input::new(&ids[3], "place", "Place", &site.place, "anywhere") }.markup(mistakes))
        }
    }
}

/// The row of a requested link.
pub(in crate::pages) fn link_row(row: usize, link: &LinkFields, mistakes: &Mistakes) -> Markup {
    let ids = ["from", "to", "rate", "latency"].map(|name| format!("link-{row}-{name}"));
    html! {
        fieldset class="row" {
            legend { "Link " (row + 1) }
            (Input::new(&ids[0], "from", "From site", &link.from, "a").markup(mistakes))
            (Input::new(&ids[1], "to", "To site", &link.to, "b").markup(mistakes))
            (Input::new(&ids[2], "rate", "Rate", &link.rate, "2G").markup(mistakes))
            (Input::new(&ids[3], "latency", "Largest latency", &link.latency, "any").markup(mistakes))
        }
    }
}

/// The fields as inputs that are not seen.
pub(in crate::pages) fn hidden(fields: &RequestFields) -> Markup {
    html! {
        @for (name, value) in fields.pairs() {
            input type="hidden" name=(name) value=(value);
        }
    }
}
