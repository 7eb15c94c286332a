//! Branch-and-bound trees over binary decisions, written as a list of numbers.
//!
//! The list is the tree in preorder, the branch *in* before the branch *out*: an even number 2i branches on unit i, an odd
//! number 2m + 1 is a leaf, closed by a minimum cut with the Lagrange multiplier m. A branch that propagation finds empty
//! takes no number. [`Branching`] says what a decision implies and what closes a leaf.
//!
//! Invariant of [`verify`]: the open nodes together are the part of the space that is not yet shown empty.

/// A space of sets of units that a tree divides.
pub trait Branching {
    /// A node of the tree: the sets that agree with the decisions so far.
    type Node: Clone;
    /// The whole space; none if it is empty.
    fn root(&self) -> Option<Self::Node>;
    /// How many units there are to branch on.
    fn units(&self) -> usize;
    /// The child with a unit in (or out); none if that is empty. Units that are decided already may be asked for.
    fn decide(&self, node: &Self::Node, unit: usize, inside: bool) -> Option<Self::Node>;
    /// Whether the relaxation with this multiplier shows that a node is empty.
    fn closes(&mut self, node: &Self::Node, multiplier: u32) -> bool;
}

/// The largest multiplier.
pub const MOST_MULTIPLIER: u32 = 1 << 14;
/// The most numbers in all trees of a proof.
pub const MOST_NUMBERS: usize = 1 << 22;

/// Whether a tree shows that a space is empty.
pub fn verify<B: Branching>(space: &mut B, tree: &[u32]) -> Result<(), String> {
    let mut open: Vec<B::Node> = space.root().into_iter().collect();
    let mut numbers = tree.iter();
    while let Some(node) = open.pop() {
        let &number = numbers.next().ok_or("the tree ends before all is shown")?;
        let value = number >> 1;
        if number & 1 == 1 {
            if value > MOST_MULTIPLIER || !space.closes(&node, value) {
                return Err(format!("a cut with multiplier {value} does not close a leaf"));
            }
            continue;
        }
        let unit = value as usize;
        if unit >= space.units() {
            return Err(format!("unit {unit} of {}", space.units()));
        }
        open.extend(space.decide(&node, unit, false));
        open.extend(space.decide(&node, unit, true));
        if open.len() > space.units() + 2 {
            return Err("it branches on a unit again and again".to_owned());
        }
    }
    if numbers.next().is_some() {
        return Err("the tree goes on after all is shown".to_owned());
    }
    Ok(())
}
