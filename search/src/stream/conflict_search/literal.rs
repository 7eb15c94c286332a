//! Literals: 2v says that variable v is true, 2v + 1 that it is false.

/// A variable with a truth value.
pub(super) type Literal = usize;

pub(super) const fn negated(literal: Literal) -> Literal {
    literal ^ 1
}
