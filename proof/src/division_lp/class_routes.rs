//! The least transfer time between two device classes, as a function of bytes; and what else bounds by divisions share.

use divvy_core::hardware::Route;
use divvy_core::problem::Problem;

/// For each ordered pair of classes, the distinct routes between their devices: which is fastest depends on the bytes.
pub struct FastestRoutes<'a> {
    classes: usize,
    routes: Vec<Vec<&'a Route>>,
}

impl<'a> FastestRoutes<'a> {
    /// The routes of a problem's hardware.
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

    /// The least time of bytes from a device of one class to one of another; 0 within a class, none without a route.
    pub fn delay(&self, from: usize, to: usize, bytes: u64) -> Option<u64> {
        if from == to {
            return Some(0);
        }
        self.routes[from * self.classes + to].iter().map(|route| route.time(bytes).0).min()
    }
}

/// The greatest common divisor.
pub(crate) fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The message for a sum that does not fit its integer.
pub(crate) fn too_large() -> String {
    "its figures add up to more than can be counted".to_owned()
}
