//! Work on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// Does `work` on each of `items`, with a thread for each core that takes the next one that nobody
/// has taken. The results are in the order of the items, and how many are done stands on standard
/// error.
pub fn in_parallel<T: Sync, R: Send>(
    what: &str,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let (results, arrived) = channel();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            let (next, work, results) = (&next, &work, results.clone());
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    if results.send((i, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        let mut all: Vec<(usize, R)> = Vec::with_capacity(items.len());
        for result in arrived {
            all.push(result);
            eprint!("\r{what}: {} of {}", all.len(), items.len());
        }
        eprintln!();
        all.sort_unstable_by_key(|&(i, _)| i);
        all.into_iter().map(|(_, result)| result).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..500).collect();
        let squares = in_parallel("squares", &items, |i| i * i);
        assert!(squares.iter().zip(&items).all(|(square, i)| *square == i * i));
        assert_eq!(squares.len(), items.len());
        assert!(in_parallel("nothing", &[], |i: &u64| *i).is_empty());
    }
}
