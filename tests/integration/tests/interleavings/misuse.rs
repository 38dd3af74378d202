//! Invalid calls, and handles of another pool or device.

use zico_core::{AllocError, Begin, Bytes, JobConfig};
use zico_mock::policy::Exclusive;
use zico_mock::{MockConfig, MockDevice};

use super::{Setup, blocks};

#[test]
fn ending_what_has_not_begun_changes_nothing() {
    let setup = Setup::new(2, |config| config.policy(Box::new(Exclusive)));
    let [one, two, three] = ["one", "two", "three"].map(|name| setup.join(name).0);
    assert_eq!(one.begin(None).unwrap(), Begin::Started);
    assert!(matches!(two.begin(None).unwrap(), Begin::Wait(_)));
    assert!(matches!(three.begin(None).unwrap(), Begin::Wait(_)));
    assert!(two.end().is_err());
    one.end().unwrap();
    assert!(two.end().is_err(), "it may start, and has not been told");
    assert_eq!(two.begin(None).unwrap(), Begin::Started);
    two.end().unwrap();
    assert_eq!(three.begin(None).unwrap(), Begin::Started);
}

#[test]
fn a_stream_of_another_device_is_refused_at_the_door() {
    let setup = Setup::new(4, |config| config);
    let elsewhere = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap().add_stream();
    assert!(setup.pool.join("bad", elsewhere).is_err());
    let (job, _) = setup.join("job");
    let block = job.alloc(blocks(1)).unwrap();
    assert!(job.record_use(block, elsewhere).is_err());
    assert_eq!(setup.device.usage().ranges, 2, "those of the job");
}

#[test]
fn a_handle_of_another_pool_is_refused() {
    let pools = [(); 2].map(|()| Setup::new(4, |config| config));
    let [one, two] = ["a", "b"].map(|name| pools[usize::from(name == "b")].join(name).0);
    let (first, second) = (one.alloc(blocks(1)).unwrap(), two.alloc(blocks(1)).unwrap());
    assert_eq!(first.address(), second.address(), "all but the pool is the same");
    assert!(two.free(first).is_err());
    two.free(second).unwrap();
}

#[test]
fn an_alignment_is_a_power_of_two() {
    let (job, _) = Setup::new(4, |config| config).join("job");
    for align in [0, 3, 100, 3 << 20] {
        let request = blocks(1).aligned(Bytes::new(align));
        assert!(matches!(job.alloc(request), Err(AllocError::Invalid { .. })), "{align}");
    }
    job.alloc(blocks(1).aligned(Bytes::new(1))).unwrap();
}

/// Errors have to tell jobs without a name apart.
#[test]
fn jobs_without_a_name_have_a_number() {
    let setup = Setup::new(4, |config| config);
    let stream = setup.device.add_stream();
    let jobs = [(); 2].map(|()| setup.pool.join(JobConfig::default(), stream).unwrap());
    let snapshot = setup.pool.snapshot().to_string();
    assert!(snapshot.contains("job 1") && snapshot.contains("job 2"), "{snapshot}");
    drop(jobs);
}
