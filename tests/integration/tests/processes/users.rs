//! Processes of several users.

use super::*;

/// What one user's job has written no other user's reads, though they share the budget; nor does
/// another user change it.
#[test]
fn memory_that_goes_to_another_user_is_made_anew() {
    const STRANGER: &str = "65534";
    if !rustix::process::geteuid().is_root() {
        return println!("not tested: only root can be two users");
    }
    let broker = Broker::for_users("users", PEAK + KEPT + 4, &[STRANGER]);
    let node = broker.folder.join("node");
    std::fs::copy(NODE, &node).unwrap();
    let strange = || {
        let mut command = Command::new(&node);
        command.uid(STRANGER.parse().unwrap()).gid(STRANGER.parse().unwrap());
        command
    };
    // One after the other: all memory is the first one's.
    broker.train("own", 5, &["--expect", "clear"]).finish();
    broker.train_by(strange(), "strange", 5, &["--expect", "clear"]).finish();
    let between = broker.books().counts;
    assert!(between.destroys > 0, "{between:?}");
    // Of the same user it is handed over.
    broker.train_by(strange(), "strange", 5, &[]).finish();
    let after = broker.books().counts;
    assert_eq!((between.creates, between.destroys), (after.creates, after.destroys));
    // Both at once, in too little memory for both.
    let both = [
        broker.train("own", 30, &["--hold", "1"]),
        broker.train_by(strange(), "strange", 30, &["--hold", "1"]),
    ];
    let mut most = 0;
    for trainer in both {
        most = most.max(broker.held_by_the_kernel());
        trainer.finish();
    }
    assert!(most <= broker.budget * REGION);
    broker.until_all_is_back();
    let refused = strange().args(["budget", broker.socket().to_str().unwrap(), "64"]).output();
    let said = String::from_utf8_lossy(&refused.unwrap().stderr).into_owned();
    assert!(said.contains("only the user who runs the broker"), "{said}");
    let third = Command::new(&node)
        .args(["books", broker.socket().to_str().unwrap()])
        .uid(65533)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&third.stderr);
    assert!(!third.status.success() && said.contains("65533"), "{said}");
}
