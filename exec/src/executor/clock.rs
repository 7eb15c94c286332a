//! The time that work took, without the time for which others had the core.
//!
//! Other programs, and other guests of the same host, take a core away now and then. A run is longer for it by what no plan
//! can foresee. Every device and link therefore has a clock that goes on only while its thread has a core. A stage starts
//! when its device is free and what it reads has come, both by these clocks, and hands the time of its end on with what it
//! makes. So they tell what the same stages in the same order would have taken undisturbed.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The clock of one thread that does the work of a device or link.
pub(super) struct WorkClock {
    /// Whether the thread does all the work itself. If not, its processor time says nothing, and the wall's clock is it.
    by_thread: bool,
    epoch: Instant,
    /// When the last work ended, undisturbed.
    free: Duration,
    /// What the thread had used by then.
    used: Duration,
}

/// Work under way.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) began: Instant,
    /// What the thread had used by then.
    used: Duration,
    /// When it began, undisturbed.
    start: Duration,
    /// From the moment it could begin until it did, undisturbed; none if something else was done before it meanwhile.
    pub(super) handover: Option<Duration>,
}

/// Work that was waited for.
#[derive(Clone, Copy)]
pub(super) struct Awaited {
    /// Since when it could begin.
    pub(super) since: Instant,
    /// What the thread had used when it last looked for work in vain.
    pub(super) looked: Duration,
}

/// What work took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) ended: Instant,
    /// By the wall's clock.
    pub(super) wall: Duration,
    /// While the thread had its core.
    pub(super) own: Duration,
    /// When it ended, undisturbed.
    pub(super) end: Duration,
}

impl WorkClock {
    pub(super) fn new(by_thread: bool, epoch: Instant) -> WorkClock {
        WorkClock { by_thread, epoch, free: Duration::ZERO, used: Duration::ZERO }
    }

    /// What the thread has used by now.
    pub(super) fn used(&self) -> Duration {
        if !self.by_thread {
            return self.epoch.elapsed();
        }
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    /// Work begins that could begin at `due`, undisturbed.
    pub(super) fn begin(&self, due: Duration, awaited: Option<Awaited>) -> Work {
        let began = Instant::now();
        let used = self.used();
        // Had the thread always had its core, it would have seen the work when it next looked.
        let handover = awaited
            .map(|awaited| began.duration_since(awaited.since).min(used.saturating_sub(awaited.looked)));
        let start = match handover {
            Some(handover) => self.free.max(due + handover),
            None => due.max(self.free + used.saturating_sub(self.used)),
        };
        Work { began, used, start, handover }
    }

    /// It ends.
    pub(super) fn end(&mut self, work: Work) -> Took {
        let ended = Instant::now();
        let used = self.used();
        let wall = ended.duration_since(work.began);
        // The two clocks are not read at one moment.
        let own = if self.by_thread { used.saturating_sub(work.used).min(wall) } else { wall };
        (self.free, self.used) = (work.start + own, used);
        Took { ended, wall, own, end: self.free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(clock: &WorkClock) -> Awaited {
        Awaited { since: Instant::now(), looked: clock.used() }
    }

    fn spin(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn time_without_a_core_is_left_out() {
        let epoch = Instant::now();
        let mut clock = WorkClock::new(true, epoch);
        let work = clock.begin(Duration::ZERO, Some(now(&clock)));
        // Asleep, a thread has no core, as when others have it.
        std::thread::sleep(Duration::from_millis(50));
        let took = clock.end(work);
        assert!(took.wall >= Duration::from_millis(50));
        assert!(took.own < Duration::from_millis(25), "{took:?}");
        assert!(took.end < Duration::from_millis(30), "{took:?}");
    }

    #[test]
    fn work_waits_for_its_device_and_for_what_it_reads() {
        let epoch = Instant::now();
        let mut clock = WorkClock::new(true, epoch);
        let late = Duration::from_secs(100);
        let first = clock.begin(late, Some(now(&clock)));
        spin(Duration::from_millis(2));
        let first = clock.end(first);
        assert!(first.end >= late + first.own);
        // The second could have begun long before, but the device was not free.
        let second = clock.begin(Duration::from_secs(1), None);
        let second = clock.end(second);
        assert!(second.end >= first.end);
        assert!(second.end < first.end + Duration::from_secs(1));
    }

    #[test]
    fn the_wall_s_clock_is_it_where_others_do_the_work() {
        let epoch = Instant::now();
        let mut clock = WorkClock::new(false, epoch);
        let work = clock.begin(Duration::ZERO, Some(now(&clock)));
        std::thread::sleep(Duration::from_millis(5));
        let took = clock.end(work);
        assert_eq!(took.own, took.wall);
    }
}
