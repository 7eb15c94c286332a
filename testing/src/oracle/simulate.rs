//! A naive simulation: jobs queue up at resources, and whoever is at the head of all its queues and has all it needs
//! starts. Nobody starts any more: a deadlock.

/// Something that takes time.
#[derive(Clone, Default)]
pub struct Job {
    pub duration: u64,
    pub release: u64,
    /// Jobs that must have ended, and how long before this one starts.
    pub needs: Vec<(usize, u64)>,
}

/// When each job ends, if every queue is served in order, one job at a time; none for a deadlock.
pub fn ends(jobs: &[Job], queues: &[Vec<usize>]) -> Option<Vec<u64>> {
    let mut ends: Vec<Option<u64>> = vec![None; jobs.len()];
    let start_of = |job: usize, ends: &[Option<u64>]| -> Option<u64> {
        let mut start = jobs[job].release;
        for &(other, delay) in &jobs[job].needs {
            start = start.max(ends[other]? + delay);
        }
        for queue in queues.iter().filter(|queue| queue.contains(&job)) {
            for &before in queue.iter().take_while(|&&other| other != job) {
                start = start.max(ends[before]?);
            }
        }
        Some(start)
    };
    loop {
        let ready = (0..jobs.len()).filter(|&job| ends[job].is_none());
        let Some((job, start)) = ready.filter_map(|job| Some((job, start_of(job, &ends)?))).next() else {
            return ends.into_iter().collect();
        };
        ends[job] = Some(start + jobs[job].duration);
    }
}
