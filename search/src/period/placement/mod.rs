//! What the planners of `stream` share: the problem in tables, partial placements, and how little the rest can cost.

mod anneal;
mod carving;
mod conflict;
mod keep;
mod packing;
mod partial;
mod prices;
mod rest;
mod sharing;
mod sweep;
mod tables;
mod unite;

pub(super) use anneal::{anneal, polish};
pub(super) use carving::Carving;
pub(super) use conflict::{Conflicts, Found};
pub(super) use keep::{keep_in_place, repair};
pub(super) use packing::{Levelling, Packing};
pub(super) use partial::Partial;
pub(super) use prices::prices;
pub(super) use rest::Rest;
pub(super) use sharing::Sharing;
pub(super) use sweep::Sweeps;
pub(super) use tables::Tables;
pub(super) use unite::United;
