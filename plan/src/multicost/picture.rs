//! What a multi-cost planner sees: the vectors of all links and clusters, cut at the task's amounts.

use coalloc_common::invalid::check_range;
use coalloc_common::topology::Direction;
use coalloc_common::{
    Amount, AvailabilityVector, BitsPerSecond, Cpus, EdgeIndex, EdgeName, InvalidField, SlotGrid,
    Span, Time, VertexIndex, VertexName, Window, limits,
};

/// One edge in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkView {
    /// What it is called in refusals.
    pub name: EdgeName,
    /// Which edge of the federation it is, travelled
    pub edge: EdgeIndex,
    /// this way,
    pub direction: Direction,
    /// from here
    pub from: VertexIndex,
    /// to there.
    pub to: VertexIndex,
    /// How long data travel (`d_l`), at most [`limits::LATENCY_MAX`]. Planners count it in whole slots,
    /// rounded up.
    pub delay: Span,
    /// What there is of one wavelength, or of the whole link, when it is empty.
    pub capacity: BitsPerSecond,
    /// When the picture's rate is free on it. One vector when a node can put a burst on any
    /// wavelength (full conversion), or has one only: that of the link's whole free rate. Without
    /// conversion one for each wavelength, and a burst stays on the one it was sent on.
    pub free: Vec<AvailabilityVector>,
}

/// The computers of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// What it is called in refusals.
    pub name: VertexName,
    /// Where it is.
    pub vertex: VertexIndex,
    /// CPUs there are (`W_m`).
    pub capacity: Cpus,
    /// CPUs that were taken when the picture was made, at most all: the load that `samcra` goes by.
    pub busy: Cpus,
    /// What each does, in million instructions a second (`C_m`): 1 to [`limits::MIPS_MAX`].
    pub mips: u64,
    /// Tasks scheduled there, for [`super::TaskObjective::FewestTasks`].
    pub tasks: u64,
    /// When the picture's number of CPUs is free.
    pub free: AvailabilityVector,
}

/// How large a picture will be: asked before its vectors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureSize {
    /// Directed links.
    pub links: usize,
    /// Wavelengths told apart on each; 1 with conversion.
    pub wavelengths: usize,
    /// Slots of each link vector.
    pub link_slots: usize,
    /// Clusters.
    pub clusters: usize,
    /// Slots of each cluster vector.
    pub cluster_slots: usize,
}

impl PictureSize {
    /// Can there be such a picture?
    ///
    /// # Errors
    /// [`InvalidField`] when one of the numbers, or all vectors together, are beyond their bounds.
    pub fn check(&self) -> Result<(), InvalidField> {
        check_range("links", self.links, 0..=2 * limits::EDGES_MAX, "links")?;
        check_range("wavelengths", self.wavelengths, 1..=limits::WAVELENGTHS_MAX, "wavelengths")?;
        check_range("link_slots", self.link_slots, 1..=limits::VECTOR_SLOTS_MAX, "slots")?;
        check_range("clusters", self.clusters, 0..=limits::VERTICES_MAX, "clusters")?;
        check_range("cluster_slots", self.cluster_slots, 1..=limits::VECTOR_SLOTS_MAX, "slots")?;
        // Each is bounded above; the products fit 64 bits.
        let links = (self.links * self.wavelengths) as u64 * self.link_slots as u64;
        let slots = links + self.clusters as u64 * self.cluster_slots as u64;
        check_slots(slots)
    }
}

fn check_slots(slots: u64) -> Result<(), InvalidField> {
    check_range("picture", slots, 0..=limits::PICTURE_SLOTS_MAX, "slots of all its vectors")
        .map(|_| ())
}

/// A federation as a scheduler believes it to be, at one rate and one number of CPUs.
///
/// Built by adding links and clusters; every addition is checked. Vertices are numbered as in the
/// federation's topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BelievedNetwork {
    vertices: usize,
    link_grid: SlotGrid,
    cluster_grid: SlotGrid,
    rate: BitsPerSecond,
    cpus: Cpus,
    guard: u32,
    links: Vec<LinkView>,
    clusters: Vec<ClusterView>,
    slots: u64,
}

impl BelievedNetwork {
    /// A picture of so many vertices, without links or clusters. Vectors of links are on `link_grid`
    /// and say when `rate` is free, those of clusters on `cluster_grid` and say when `cpus` are.
    ///
    /// # Errors
    /// [`InvalidField`] when there are more than [`limits::VERTICES_MAX`] vertices, or an amount is 0
    /// or beyond its bound.
    pub fn new(
        vertices: usize,
        (link_grid, rate): (SlotGrid, BitsPerSecond),
        (cluster_grid, cpus): (SlotGrid, Cpus),
    ) -> Result<Self, InvalidField> {
        check_range("vertices", vertices, 1..=limits::VERTICES_MAX, "vertices")?;
        check_range("rate", rate.0, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
        check_range("cpus", cpus.0, 1..=limits::CPUS_MAX, "CPUs")?;
        let (links, clusters, slots, guard) = (Vec::new(), Vec::new(), 0, 0);
        Ok(Self { vertices, link_grid, cluster_grid, rate, cpus, guard, links, clusters, slots })
    }

    /// The same picture, of which plans also take so many slots of each link before those in which data
    /// are expected.
    ///
    /// Planners round each link's delay up to slots, as the papers do, as if nodes held data to the
    /// next boundary. Where nodes hold nothing, data come early by less than a slot for each link
    /// behind them: a guard of as many slots as a path has links covers that.
    #[must_use]
    pub fn with_guard(mut self, slots: u32) -> Self {
        self.guard = slots;
        self
    }

    /// Adds a link.
    ///
    /// # Errors
    /// [`InvalidField`] when an end is no vertex or both are one, a number is out of its range, the
    /// vectors are on another grid or not as many as those of the links before, or the picture would
    /// be larger than [`limits::PICTURE_SLOTS_MAX`].
    pub fn add_link(&mut self, link: LinkView) -> Result<(), InvalidField> {
        check_range("links", self.links.len() + 1, 1..=2 * limits::EDGES_MAX, "links")?;
        let last = self.vertices as u32 - 1; // At most VERTICES_MAX, at least 1.
        check_range("from", link.from.0, 0..=last, "(a vertex)")?;
        check_range("to", link.to.0, 0..=last, "(a vertex)")?;
        if link.from == link.to {
            return Err(InvalidField::new("to", link.to.0, "another vertex than `from`"));
        }
        if !(Span::ZERO..=limits::LATENCY_MAX).contains(&link.delay) {
            let allowed = format!("0 to {}", limits::LATENCY_MAX);
            return Err(InvalidField::new("delay", link.delay, allowed));
        }
        check_range("capacity", link.capacity.0, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
        let wavelengths = self.links.first().map(|first| first.free.len());
        let allowed = wavelengths.map_or(1..=limits::WAVELENGTHS_MAX, |all| all..=all);
        check_range("free", link.free.len(), allowed, "vectors (wavelengths)")?;
        for vector in &link.free {
            self.admit("free", vector, self.link_grid)?;
        }
        self.links.push(link);
        Ok(())
    }

    /// Adds a cluster.
    ///
    /// # Errors
    /// [`InvalidField`] when it is at no vertex, a number is out of its range, the vector is on another
    /// grid, or the picture would be larger than [`limits::PICTURE_SLOTS_MAX`].
    pub fn add_cluster(&mut self, cluster: ClusterView) -> Result<(), InvalidField> {
        check_range("clusters", self.clusters.len() + 1, 1..=limits::VERTICES_MAX, "clusters")?;
        check_range("vertex", cluster.vertex.0, 0..=self.vertices as u32 - 1, "(a vertex)")?;
        check_range("capacity", cluster.capacity.0, 1..=limits::CPUS_MAX, "CPUs")?;
        check_range("busy", cluster.busy.0, 0..=cluster.capacity.0, "CPUs")?;
        check_range("mips", cluster.mips, 1..=limits::MIPS_MAX, "MIPS")?;
        self.admit("free", &cluster.free, self.cluster_grid)?;
        self.clusters.push(cluster);
        Ok(())
    }

    fn admit(
        &mut self,
        field: &str,
        vector: &AvailabilityVector,
        grid: SlotGrid,
    ) -> Result<(), InvalidField> {
        if vector.grid() != grid {
            let allowed = format!("vectors with slots of {}", grid.slot());
            return Err(InvalidField::new(field, vector.grid().slot(), allowed));
        }
        let slots = self.slots.saturating_add(vector.len() as u64);
        check_slots(slots)?;
        self.slots = slots;
        Ok(())
    }

    /// Moves all vectors on to begin at the slot of an instant, see [`AvailabilityVector::advance`]: what is
    /// new at their ends is free until it is said to be otherwise.
    pub fn advance(&mut self, to: Time) {
        let (link_slot, cluster_slot) =
            (self.link_grid.containing(to), self.cluster_grid.containing(to));
        for vector in self.links.iter_mut().flat_map(|link| &mut link.free) {
            vector.advance(link_slot);
        }
        for cluster in &mut self.clusters {
            cluster.free.advance(cluster_slot);
        }
    }

    /// Says anew what is free of a link over the slots that a window touches, as a profile. Of a link with
    /// several wavelengths that is of its first. Nothing happens when there is no such link.
    pub fn replace_link(
        &mut self,
        link: usize,
        window: Window,
        steps: impl IntoIterator<Item = (Time, Amount)>,
    ) {
        let rate = self.rate.into();
        if let Some(vector) = self.links.get_mut(link).and_then(|link| link.free.first_mut()) {
            vector.replace(window, steps, rate);
        }
    }

    /// The same of a cluster.
    pub fn replace_cluster(
        &mut self,
        cluster: usize,
        window: Window,
        steps: impl IntoIterator<Item = (Time, Amount)>,
    ) {
        let cpus = self.cpus.into();
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.free.replace(window, steps, cpus);
        }
    }

    /// Says anew how many CPUs of a cluster are busy, at most all, and how many tasks are scheduled there.
    pub fn set_load(&mut self, cluster: usize, busy: Cpus, tasks: u64) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.busy = busy.min(cluster.capacity);
            cluster.tasks = tasks;
        }
    }

    /// How many vertices there are.
    #[must_use]
    pub const fn vertices(&self) -> usize {
        self.vertices
    }
    /// How the time of links is cut (`tau_l`).
    #[must_use]
    pub const fn link_grid(&self) -> SlotGrid {
        self.link_grid
    }
    /// How the time of clusters is cut (`tau_m`).
    #[must_use]
    pub const fn cluster_grid(&self) -> SlotGrid {
        self.cluster_grid
    }
    /// The rate that links' vectors are about.
    #[must_use]
    pub const fn rate(&self) -> BitsPerSecond {
        self.rate
    }
    /// The CPUs that clusters' vectors are about.
    #[must_use]
    pub const fn cpus(&self) -> Cpus {
        self.cpus
    }
    /// Slots that are taken of each link before data are expected there.
    #[must_use]
    pub const fn guard(&self) -> u32 {
        self.guard
    }
    /// The links, in the order they were added: plans name them by that.
    #[must_use]
    pub fn links(&self) -> &[LinkView] {
        &self.links
    }
    /// The clusters, in the order they were added: plans name them by that.
    #[must_use]
    pub fn clusters(&self) -> &[ClusterView] {
        &self.clusters
    }
    /// Wavelengths told apart on every link.
    #[must_use]
    pub fn wavelengths(&self) -> usize {
        self.links.first().map_or(1, |link| link.free.len())
    }

    /// A link's delay in slots, rounded up.
    #[must_use]
    pub fn delay_slots(&self, link: usize) -> u64 {
        self.links.get(link).map_or(0, |link| self.link_grid.slots_for(link.delay))
    }
}
