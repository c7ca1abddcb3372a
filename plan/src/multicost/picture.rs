//! The picture of a multi-cost planner: the availability vectors of all links and clusters, for the
//! amounts of the task.

use coalloc_common::invalid::check_range;
use coalloc_common::topology::Direction;
use coalloc_common::{
    Amount, AvailabilityVector, BitsPerSecond, Cpus, EdgeIndex, EdgeName, InvalidField, SlotGrid,
    Span, Time, VertexIndex, VertexName, Window, limits,
};

/// One edge in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkView {
    /// The name in refusals.
    pub name: EdgeName,
    /// The edge of the federation.
    pub edge: EdgeIndex,
    /// The direction in which the edge is used.
    pub direction: Direction,
    /// The vertex where the link begins.
    pub from: VertexIndex,
    /// The vertex where the link ends.
    pub to: VertexIndex,
    /// How long data travel (`d_l`), at most [`limits::LATENCY_MAX`]. Planners count it in whole
    /// slots, rounded up.
    pub delay: Span,
    /// The capacity of one wavelength, or of the whole link, when nothing is booked.
    pub capacity: BitsPerSecond,
    /// When the picture's rate is free on the link. There is one vector, for the free rate of the
    /// whole link, when a node can put a burst on any wavelength (full conversion) or the link has
    /// only one. Without conversion there is one vector for each wavelength, and a burst stays on
    /// its wavelength all along the path.
    pub free: Vec<AvailabilityVector>,
}

/// The computers of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// The name in refusals.
    pub name: VertexName,
    /// The vertex where the cluster is.
    pub vertex: VertexIndex,
    /// The number of CPUs (`W_m`).
    pub capacity: Cpus,
    /// How many CPUs were busy when the picture was made, at most all of them. `samcra` uses it as
    /// the load.
    pub busy: Cpus,
    /// The speed of each CPU, in million instructions per second (`C_m`): 1 to
    /// [`limits::MIPS_MAX`].
    pub mips: u64,
    /// How many tasks are scheduled there, for [`super::TaskObjective::FewestTasks`].
    pub tasks: u64,
    /// When the picture's number of CPUs is free.
    pub free: AvailabilityVector,
}

/// The size of a picture, to be checked before its vectors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureSize {
    /// The number of directed links.
    pub links: usize,
    /// The number of wavelengths on each link that have vectors of their own; 1 with conversion.
    pub wavelengths: usize,
    /// Slots of each link vector.
    pub link_slots: usize,
    /// The number of clusters.
    pub clusters: usize,
    /// Slots of each cluster vector.
    pub cluster_slots: usize,
}

impl PictureSize {
    /// Checks that there can be such a picture.
    ///
    /// # Errors
    /// [`InvalidField`] when one of the numbers, or the number of slots in all vectors, is out of
    /// its range.
    pub fn check(&self) -> Result<(), InvalidField> {
        check_range("links", self.links, 0..=2 * limits::EDGES_MAX, "links")?;
        check_range("wavelengths", self.wavelengths, 1..=limits::WAVELENGTHS_MAX, "wavelengths")?;
        check_range("link_slots", self.link_slots, 1..=limits::VECTOR_SLOTS_MAX, "slots")?;
        check_range("clusters", self.clusters, 0..=limits::VERTICES_MAX, "clusters")?;
        check_range("cluster_slots", self.cluster_slots, 1..=limits::VECTOR_SLOTS_MAX, "slots")?;
        // Each factor is bounded above, so the products fit into 64 bits.
        let links = (self.links * self.wavelengths) as u64 * self.link_slots as u64;
        let slots = links + self.clusters as u64 * self.cluster_slots as u64;
        check_slots(slots)
    }
}

fn check_slots(slots: u64) -> Result<(), InvalidField> {
    check_range("picture", slots, 0..=limits::PICTURE_SLOTS_MAX, "slots of all its vectors")
        .map(|_| ())
}

/// A federation as a scheduler believes it to be, for one rate and one number of CPUs.
///
/// It is built by adding links and clusters, and every addition is checked. Vertices have the
/// numbers of the federation's topology.
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
    /// A picture of this many vertices, without links or clusters. Vectors of links are on
    /// `link_grid` and say when `rate` is free. Vectors of clusters are on `cluster_grid` and say
    /// when `cpus` are free.
    ///
    /// # Errors
    /// [`InvalidField`] when there are more than [`limits::VERTICES_MAX`] vertices or none, or when
    /// an amount is 0 or beyond its bound.
    pub fn new(
        vertices: usize,
        link_grid: SlotGrid,
        rate: BitsPerSecond,
        cluster_grid: SlotGrid,
        cpus: Cpus,
    ) -> Result<Self, InvalidField> {
        check_range("vertices", vertices, 1..=limits::VERTICES_MAX, "vertices")?;
        check_range("rate", rate.0, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
        check_range("cpus", cpus.0, 1..=limits::CPUS_MAX, "CPUs")?;
        let (links, clusters, slots, guard) = (Vec::new(), Vec::new(), 0, 0);
        Ok(Self { vertices, link_grid, cluster_grid, rate, cpus, guard, links, clusters, slots })
    }

    /// The same picture with a guard: plans also take this many slots of each link before those in
    /// which data are expected.
    ///
    /// Planners round each link's delay up to slots, as the papers do, as if nodes kept data until
    /// the next slot begins. Where nodes keep nothing, data come early, by less than a slot for
    /// each link before. A guard of as many slots as a path has links covers that.
    #[must_use]
    pub fn with_guard(mut self, slots: u32) -> Self {
        self.guard = slots;
        self
    }

    /// Adds a link.
    ///
    /// # Errors
    /// [`InvalidField`] when an end is no vertex or both ends are the same, a number is out of its
    /// range, a vector is on another grid, the number of vectors differs from that of the earlier
    /// links, or the picture would be larger than [`limits::PICTURE_SLOTS_MAX`].
    pub fn add_link(&mut self, link: LinkView) -> Result<(), InvalidField> {
        check_range("links", self.links.len() + 1, 1..=2 * limits::EDGES_MAX, "links")?;
        let last = self.vertices as u32 - 1; // At most VERTICES_MAX, at least 1.
        check_range("from", link.from.0, 0..=last, "(a vertex)")?;
        check_range("to", link.to.0, 0..=last, "(a vertex)")?;
        if link.from == link.to {
            return Err(InvalidField::new("to", link.to.0, "a vertex other than `from`"));
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
    /// [`InvalidField`] when its vertex does not exist, a number is out of its range, the vector is
    /// on another grid, or the picture would be larger than [`limits::PICTURE_SLOTS_MAX`].
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

    /// Advances all vectors so that they begin at the slot of an instant, see
    /// [`AvailabilityVector::advance`]. New slots at their ends count as free until something else
    /// is set.
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

    /// Sets what is free of a link over the slots that a window touches, from a profile. On a link
    /// with several wavelengths this sets the first one. Nothing happens when the link does not
    /// exist.
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

    /// Sets what is free of a cluster, as [`Self::replace_link`] does for a link.
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

    /// Sets how many CPUs of a cluster are busy, at most all of them, and how many tasks are
    /// scheduled there.
    pub fn set_load(&mut self, cluster: usize, busy: Cpus, tasks: u64) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.busy = busy.min(cluster.capacity);
            cluster.tasks = tasks;
        }
    }

    /// The number of vertices.
    #[must_use]
    pub const fn vertices(&self) -> usize {
        self.vertices
    }
    /// The slots of links (`tau_l`).
    #[must_use]
    pub const fn link_grid(&self) -> SlotGrid {
        self.link_grid
    }
    /// The slots of clusters (`tau_m`).
    #[must_use]
    pub const fn cluster_grid(&self) -> SlotGrid {
        self.cluster_grid
    }
    /// The rate that the vectors of links are for.
    #[must_use]
    pub const fn rate(&self) -> BitsPerSecond {
        self.rate
    }
    /// The CPUs that the vectors of clusters are for.
    #[must_use]
    pub const fn cpus(&self) -> Cpus {
        self.cpus
    }
    /// How many slots of each link are taken before data are expected there.
    #[must_use]
    pub const fn guard(&self) -> u32 {
        self.guard
    }
    /// The links in the order in which they were added. Plans refer to them by this index.
    #[must_use]
    pub fn links(&self) -> &[LinkView] {
        &self.links
    }
    /// The clusters in the order in which they were added. Plans refer to them by this index.
    #[must_use]
    pub fn clusters(&self) -> &[ClusterView] {
        &self.clusters
    }
    /// How many vectors (wavelengths) every link has.
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
