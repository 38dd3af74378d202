//! zico and its peers on the same work.

use spin::mutex::SpinMutex;
use zico_bench::bfc::Bfc;
use zico_bench::caching::Caching;
use zico_bench::speed::{self, Outcome, Workload, Zico};
use zico_bench::table::table;
use zico_mock::bundled;

use crate::measure::{Contender, Figures, compare};
use crate::peers::{Frames, Model, Offset, Ranges};
use crate::player::{Locked, Nothing};
use crate::shadow::{Buddy, Good, LinkedList, Rlsf, Talcum};

const ROUNDS: usize = 201;

/// All allocators, zico first.
fn contenders(workload: &Workload) -> Outcome<Vec<Contender<'_>>> {
    let granules = workload.space / 512;
    let (few, space) = (u32::try_from(granules)?, workload.space);
    let offset = Offset::new(few, u32::try_from(workload.places)?);
    Ok(vec![
        Contender::new("zico", workload, Zico::keeping(workload))?,
        Contender::new("offset-allocator", workload, Ok(offset))?,
        Contender::new("range-alloc", workload, Ok(Ranges::new(granules)))?,
        Contender::new("buddy_system_allocator, frames", workload, Ok(Frames::new(few as usize)))?,
        Contender::new("PyTorch caching (model)", workload, Ok(Model::<Caching>::new()))?,
        Contender::new("TensorFlow BFC (model)", workload, Ok(Model::<Bfc>::new()))?,
        Contender::new("rlsf", workload, Rlsf::new(space))?,
        Contender::new("talc", workload, Talcum::new(space))?,
        Contender::new("linked_list_allocator", workload, LinkedList::new(space))?,
        Contender::new("buddy_system_allocator, heap", workload, Buddy::new(space))?,
        Contender::new("good_memory_allocator", workload, Good::new(space))?,
    ])
}

/// The fastest peers without a search, each behind a lock.
fn locked(workload: &Workload) -> Outcome<Vec<Contender<'_>>> {
    let space = workload.space;
    Ok(vec![
        Contender::new("zico", workload, Zico::keeping(workload))?,
        Contender::new("the lock alone", workload, lock(Ok(Nothing)))?,
        Contender::new("range-alloc", workload, lock(Ok(Ranges::new(space / 512))))?,
        Contender::new("rlsf", workload, lock(Rlsf::new(space)))?,
        Contender::new("talc", workload, lock(Talcum::new(space)))?,
        Contender::new("linked_list_allocator", workload, lock(LinkedList::new(space)))?,
        Contender::new("buddy_system_allocator, heap", workload, lock(Buddy::new(space)))?,
        Contender::new("good_memory_allocator", workload, lock(Good::new(space)))?,
    ])
}

fn lock<A>(allocator: Outcome<A>) -> Outcome<Locked<A>> {
    allocator.map(|allocator| Locked(SpinMutex::new(allocator)))
}

pub(crate) fn synthetic() -> Outcome<()> {
    let workloads = [
        speed::random(1_000, 50_000),
        speed::random(100_000, 200_000),
        speed::last_in_first_out(500),
        speed::one_size(2_048),
    ];
    let few = &workloads[2..];
    let behind = few.iter().map(|workload| compare(workload, locked(workload)?, ROUNDS));
    let behind: Vec<Vec<Figures>> = behind.collect::<Outcome<_>>()?;
    let all = workloads.iter().map(|workload| compare(workload, contenders(workload)?, ROUNDS));
    let all: Vec<Vec<Figures>> = all.collect::<Outcome<_>>()?;
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    println!("An allocation and a free, ns without the loop (times zico):\n");
    print(&names, &all);
    println!("\nThe same behind an uncontended lock, as zico is:\n");
    print(&names[2..], &behind);
    println!("\nOne allocation, ns: median / 99th percentile:\n");
    let mut singles = table(&header(&names));
    for (row, one) in all[0].iter().enumerate() {
        let cells = all.iter().map(|figures| match figures[row].alloc {
            Some((median, late)) => format!("{median} / {late}"),
            None => "-".to_owned(),
        });
        singles.add_row(std::iter::once(one.name.to_owned()).chain(cells));
    }
    println!("{singles}\n");
    Ok(())
}

pub(crate) fn recorded() -> Outcome<()> {
    let mut all = Vec::new();
    for name in bundled::names() {
        let workload = speed::recorded(name)?;
        let mut contenders = contenders(&workload)?;
        let sharing = Zico::sharing(&workload);
        contenders.push(Contender::new("zico, giving back", &workload, sharing)?);
        all.push(compare(&workload, contenders, ROUNDS)?);
    }
    println!("Recorded jobs in program order, ns a pair without the loop (times zico):\n");
    print(&bundled::names().collect::<Vec<_>>(), &all);
    println!();
    Ok(())
}

/// The last iteration of each recorded job again and again, between `begin` and `end`: what a plan
/// is for.
pub(crate) fn planned() -> Outcome<()> {
    let mut all = Vec::new();
    for name in bundled::names() {
        let workload = speed::repeating(name)?;
        let granules = u32::try_from(workload.space / 512)?;
        let offset = Offset::new(granules, u32::try_from(workload.places)?);
        let contenders = vec![
            Contender::new("zico, nothing leased", &workload, Zico::in_one_region(&workload))?,
            Contender::new("zico", &workload, Zico::sharing(&workload))?,
            Contender::new("offset-allocator", &workload, Ok(offset))?,
            Contender::new("rlsf", &workload, Rlsf::new(workload.space))?,
            Contender::new("talc", &workload, Talcum::new(workload.space))?,
        ];
        all.push(compare(&workload, contenders, ROUNDS)?);
    }
    println!("An iteration that repeats, ns a pair without the loop (times the first):\n");
    print(&bundled::names().collect::<Vec<_>>(), &all);
    println!();
    Ok(())
}

fn header<'a>(names: &[&'a str]) -> Vec<&'a str> {
    std::iter::once("").chain(names.iter().copied()).collect()
}

/// A row for each allocator, a column for each workload; zico is the first row.
fn print(names: &[&str], all: &[Vec<Figures>]) {
    let mut header = header(names);
    header.push("spread");
    let mut pairs = table(&header);
    for (row, one) in all[0].iter().enumerate() {
        let cells = all.iter().map(|figures| {
            let zico = figures[0].median.unwrap_or(f64::NAN);
            match figures[row].median {
                Some(nanos) => {
                    let least = if figures[row].at_least { ">" } else { "" };
                    format!("{least}{} ({})", digits(nanos), digits(nanos / zico))
                }
                None => "full".to_owned(),
            }
        });
        let spread =
            |figures: &Vec<Figures>| figures[row].spread / figures[row].median.unwrap_or(1.0);
        let spread = all.iter().map(spread).fold(0.0, f64::max);
        let spread = format!("{:.0}%", 100.0 * spread);
        pairs.add_row(std::iter::once(one.name.to_owned()).chain(cells).chain([spread]));
    }
    println!("{pairs}");
}

/// Three significant digits.
pub(crate) fn digits(figure: f64) -> String {
    let places = if figure < 10.0 { 2 } else { usize::from(figure < 100.0) };
    format!("{figure:.places$}")
}
