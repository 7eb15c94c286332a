//! Nothing but a build script: it fails, with one line on what to do, where the tools that build HiGHS are not there.
//!
//! It is a crate of its own, and needs next to nothing, so that it is among the first that cargo builds. The build script
//! of `solver` would come after HiGHS.
