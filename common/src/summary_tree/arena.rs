//! Nodes in one vector, referred to by index, with a list of the free places.

use std::ops::{Index, IndexMut};

#[derive(Clone)]
pub(crate) struct Arena<T> {
    nodes: Vec<T>,
    free: Vec<usize>,
}

impl<T> Arena<T> {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: Vec::new() }
    }

    /// Number of nodes in use.
    pub(super) const fn used(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) const fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<T>() + self.free.capacity() * size_of::<usize>()
    }

    /// Stores a node and returns its index.
    pub(super) fn put(&mut self, node: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.nodes[index] = node;
            return index;
        }
        if self.nodes.len() == self.nodes.capacity() {
            // Grow by an eighth and not twofold. At a million entries, the unused capacity after a
            // doubling would be the larger part of the memory; and large blocks are moved by
            // remapping, not by copying.
            self.nodes.reserve_exact(self.nodes.len() / 8 + 1);
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Frees the place of a node. Its content is never read again.
    pub(super) fn free(&mut self, index: usize) {
        self.free.push(index);
    }

    /// Passes two different nodes to one function.
    pub(super) fn with_two(
        &mut self,
        first: usize,
        second: usize,
        act: impl FnOnce(&mut T, &mut T),
    ) {
        // They are two children of one node: both exist, and they differ.
        let Ok([first, second]) = self.nodes.get_disjoint_mut([first, second]) else {
            unreachable!("nodes {first} and {second} of {}", self.nodes.len())
        };
        act(first, second);
    }

    /// Gives the memory of all nodes but one back to the allocator. That node then has index 0.
    pub(super) fn shrink_to_one(&mut self, index: usize) {
        if self.nodes.len() > 1 {
            let node = self.nodes.swap_remove(index);
            self.nodes = vec![node];
            self.free = Vec::new();
        }
    }
}

impl<T> Index<usize> for Arena<T> {
    type Output = T;
    fn index(&self, index: usize) -> &T {
        &self.nodes[index]
    }
}

impl<T> IndexMut<usize> for Arena<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.nodes[index]
    }
}
