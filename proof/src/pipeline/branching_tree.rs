//! Trees of branchings, written as a list of numbers.
//!
//! In the order of a walk that takes the branch *in* before the branch *out*: an even number 2i branches on unit i, an odd
//! number 2m + 1 is a leaf, which a minimum cut with the multiplier m closes. A branch that contradicts itself takes
//! no number. What branchings mean, and what closes a leaf, is said by [`Branching`].

/// A search space that a tree divides.
pub trait Branching {
    /// A part of the space.
    type State: Clone;
    /// The whole space; none if it is empty.
    fn root(&self) -> Option<Self::State>;
    /// How many units there are to branch on.
    fn units(&self) -> usize;
    /// The part with a unit in (or out); none if that is empty. Units that are decided already may be asked for.
    fn decide(&self, state: &Self::State, unit: usize, inside: bool) -> Option<Self::State>;
    /// Whether a multiplier shows that nothing is left in a part.
    fn closes(&mut self, state: &Self::State, multiplier: u32) -> bool;
}

/// The largest multiplier.
pub const MOST_MULTIPLIER: u32 = 1 << 14;

/// Whether a tree shows that there is nothing in a space.
pub fn verify<B: Branching>(space: &mut B, tree: &[u32]) -> Result<(), String> {
    let mut open: Vec<B::State> = space.root().into_iter().collect();
    let mut numbers = tree.iter();
    while let Some(state) = open.pop() {
        let &number = numbers.next().ok_or("the tree ends before all is shown")?;
        let value = number >> 1;
        if number & 1 == 1 {
            if value > MOST_MULTIPLIER || !space.closes(&state, value) {
                return Err(format!("a cut with multiplier {value} does not close a leaf"));
            }
            continue;
        }
        let unit = value as usize;
        if unit >= space.units() {
            return Err(format!("unit {unit} of {}", space.units()));
        }
        open.extend(space.decide(&state, unit, false));
        open.extend(space.decide(&state, unit, true));
        if open.len() > space.units() + 2 {
            return Err("it branches on a unit again and again".to_owned());
        }
    }
    if numbers.next().is_some() {
        return Err("the tree goes on after all is shown".to_owned());
    }
    Ok(())
}
