//! TODO-DOC proof/src/division_lp/units.rs

use divvy_core::hardware::Route;
use divvy_core::problem::Problem;

/// The ways between classes: of all between their devices, those that can be the fastest for some number of bytes.
pub struct FastestRoutes<'a> {
    classes: usize,
    routes: Vec<Vec<&'a Route>>,
}

impl<'a> FastestRoutes<'a> {
    /// The ways of a problem's hardware.
    pub fn new(problem: &'a Problem) -> FastestRoutes<'a> {
        let hardware = &problem.hardware;
        let classes = hardware.class_count();
        let mut routes: Vec<Vec<&Route>> = vec![Vec::new(); classes * classes];
        for from in hardware.devices() {
            for to in hardware.devices() {
                let pair = hardware.class_of(from).index() * classes + hardware.class_of(to).index();
                if let Some(route) = hardware.route(from, to) {
                    let known =
                        |other: &&Route| (other.latency, other.bandwidth) == (route.latency, route.bandwidth);
                    if !routes[pair].iter().any(known) {
                        routes[pair].push(route);
                    }
                }
            }
        }
        FastestRoutes { classes, routes }
    }

    /// The least time of bytes from a device of one class to one of another; none without a route.
    pub fn delay(&self, from: usize, to: usize, bytes: u64) -> Option<u64> {
        if from == to {
            return Some(0);
        }
        self.routes[from * self.classes + to].iter().map(|route| route.time(bytes).0).min()
    }
}

pub(crate) fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

pub(crate) fn too_large() -> String {
    "its figures add up to more than can be counted".to_owned()
}
