//! Two jobs whose iterations take a little more each time, lifetimes being learned, in too little
//! memory for both peaks.

use super::*;

/// A job whose iterations take a page after the other, and then give all of them up.
struct Course<'t> {
    job: JobKey,
    /// How many pages each iteration takes; all that follow take as many as the last one.
    totals: &'t [u64],
    iteration: usize,
    held: u64,
    runs: bool,
}

/// What a job did in its turn.
#[derive(PartialEq, Eq)]
enum Turn {
    GoesOn,
    Waits,
    /// It is told that it is out of memory.
    Told,
}

impl Course<'_> {
    fn step(&mut self, books: &mut Books, last: bool) -> Turn {
        if !self.runs {
            self.runs = books.begin(self.job) == Ok(Begin::Started);
            return if self.runs { Turn::GoesOn } else { Turn::Waits };
        }
        let total = self.totals[self.iteration.min(self.totals.len() - 1)];
        if self.held == total {
            let pages: Vec<u64> = (0..total).collect();
            books.give_for_good(self.job, Zone::Iteration, &pages);
            books.end(self.job);
            (self.held, self.runs) = (0, false);
            self.iteration += 1;
            return Turn::GoesOn;
        }
        match books.ask_told(self.job, Zone::Iteration, &[self.held], Told::Learned, last) {
            Ok(order) => {
                books.settle(self.job, Zone::Iteration, &order);
                books.tick(self.job);
                self.held += 1;
                Turn::GoesOn
            }
            Err(Denied::Busy(_)) => Turn::Waits,
            Err(_) => Turn::Told,
        }
    }
}

/// Two such jobs take turns. The iteration of the first that is told, counted from 0, if one is
/// before both have done so many.
fn told(budget: u32, totals: &[u64], iterations: usize) -> Option<usize> {
    let mut books = Books::new(budget);
    let mut jobs = ["a", "b"].map(|name| {
        let job = books.join(name);
        Course { job, totals, iteration: 0, held: 0, runs: false }
    });
    let mut vain = 0;
    for turn in 0.. {
        if jobs.iter().all(|job| job.iteration >= iterations) {
            break;
        }
        match jobs[turn % 2].step(&mut books, vain >= 2) {
            Turn::GoesOn => vain = 0,
            Turn::Waits => vain += 1,
            Turn::Told => return Some(jobs[turn % 2].iteration),
        }
        assert!(vain < 8, "all wait, and nobody is told");
    }
    None
}

/// I4: by how much an iteration may rise and still count as no more than those before, its claim
/// has to have.
#[test]
fn what_counts_as_steady_is_within_the_claim() {
    for totals in [&[32, 34, 36, 38, 40][..], &[32, 33, 35, 37], &[48, 51, 54, 57, 60, 63]] {
        for budget in 64..128 {
            assert_eq!(told(budget, totals, 16), None, "{totals:?} in {budget}");
        }
    }
}
