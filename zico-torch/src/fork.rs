//! Processes that fork.
//!
//! A child has its parent's books and none of its memory, and it must not speak for its parent to
//! anybody. So it is told apart from its parent for good, and every call in it is refused before it
//! takes a lock: one that another thread held at the fork stays locked in the child for ever.
//!
//! What the parent had allocated on host memory the child finds at its addresses all the same, as
//! `fork` promises of all memory: a copy of its own. (Were it the parent's memory itself, a worker
//! that loads data would read what the parent has put there since, or write into it.) The kernel
//! cannot copy shared mappings when they are written; so the child copies the blocks that are live
//! at once, and the parent waits until it has. Other threads of the parent go on meanwhile, as ever
//! when a program forks.
//!
//! Before the fork the parent notes what there is to copy. The child then only makes calls of the
//! kernel.

use std::io;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use zico_node::host::Backing;

use crate::blocks::blocks;

static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// A thread forks. Others that would wait.
static FORKING: AtomicBool = AtomicBool::new(false);
/// What the thread that forks has noted; what the parent of this child had noted.
static NOTED: AtomicPtr<Noted> = AtomicPtr::new(ptr::null_mut());

struct Noted {
    /// The first addresses and the sizes of the live blocks, by address.
    blocks: Vec<(u64, u64)>,
    /// What is behind them, by address.
    backing: Vec<Backing>,
    /// The kernel's page, in bytes.
    page: u64,
    /// A pipe: it is at its end when the child has closed it.
    pipe: [libc::c_int; 2],
}

/// Whether this process is a child, made by `fork` after something had been opened.
#[inline]
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// In a child: the size of the block that the parent had at an address, or 0.
pub(crate) fn size(address: u64) -> u64 {
    let noted = NOTED.load(Ordering::Acquire);
    // SAFETY: in a child it stays what the parent has left there, which nobody changes.
    let Some(noted) = (unsafe { noted.as_ref() }) else { return 0 };
    let found = noted.blocks.binary_search_by_key(&address, |(start, _)| *start);
    found.map_or(0, |at| noted.blocks[at].1)
}

/// From now on a child of this process knows that it is one, and has its copies.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are functions that stay. That of the child makes calls of the kernel
        // only.
        let failed = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        // Only for want of memory.
        assert_eq!(failed, 0, "pthread_atfork: no memory");
    });
}

/// Before the fork, in the thread that forks.
extern "C" fn prepare() {
    while FORKING.swap(true, Ordering::Acquire) {
        std::thread::sleep(Duration::from_micros(50));
    }
    if is_child() {
        return;
    }
    // A panic ends here; the child has no copies then.
    let noted = std::panic::catch_unwind(|| {
        let (blocks, backing) = blocks().backing();
        // SAFETY: nothing is passed but a number.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let mut pipe = [-1; 2];
        // SAFETY: the pointer is to two descriptors.
        let opened = unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } == 0;
        // Without one the parent does not wait.
        Box::new(Noted { blocks, backing, page, pipe: if opened { pipe } else { [-1; 2] } })
    });
    let noted = noted.map_or(ptr::null_mut(), Box::into_raw);
    NOTED.store(noted, Ordering::Release);
}

/// After the fork, in the parent.
extern "C" fn parent() {
    if !is_child() {
        let noted = NOTED.swap(ptr::null_mut(), Ordering::AcqRel);
        if !noted.is_null() {
            // SAFETY: made by `prepare` in this thread, and taken by nobody else.
            wait_for_child(&unsafe { Box::from_raw(noted) }.pipe);
        }
    }
    FORKING.store(false, Ordering::Release);
}

/// Returns when the child has closed its end of the pipe, or is dead.
fn wait_for_child(pipe: &[libc::c_int; 2]) {
    let [read, write] = *pipe;
    if read < 0 {
        return;
    }
    // SAFETY: the descriptors are this thread's own; the pointer is to a byte.
    unsafe {
        libc::close(write);
        let mut byte = 0_u8;
        while libc::read(read, (&raw mut byte).cast(), 1) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        libc::close(read);
    }
}

/// After the fork, in the child.
extern "C" fn child() {
    let first = !IS_CHILD.swap(true, Ordering::Relaxed);
    // SAFETY: made by `prepare`; nobody changes it any more. It stays, for `size`.
    let noted = unsafe { NOTED.load(Ordering::Acquire).as_ref() };
    if let (true, Some(noted)) = (first, noted) {
        for backing in &noted.backing {
            if !copy(backing, noted.page) {
                give_up();
            }
        }
        for end in noted.pipe {
            // SAFETY: the child's own copies of the descriptors.
            unsafe { libc::close(end) };
        }
    }
    FORKING.store(false, Ordering::Release);
}

/// Puts a copy of what a file has to some addresses, where the child has nothing. Whole pages:
/// blocks may share one, and then it is copied once for each of them, before anybody has written to
/// it.
fn copy(backing: &Backing, page: u64) -> bool {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let start = backing.at.value() & !(page - 1);
    let before = backing.at.value() - start;
    let len = (before + backing.len.value()).next_multiple_of(page);
    let Some(offset) = backing.offset.value().checked_sub(before) else { return false };
    let at = ptr::with_exposed_provenance_mut::<libc::c_void>(size(start));
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the addresses are in a reservation of ours, of which the child has nothing that is
    // used: the mappings of the parent are not inherited.
    if unsafe { libc::mmap(at, size(len), access, flags, -1, 0) } == libc::MAP_FAILED {
        return false;
    }
    let mut done = 0;
    while done < len {
        let Ok(from) = libc::off_t::try_from(offset + done) else { return false };
        // SAFETY: so many bytes have just been mapped there.
        let read =
            unsafe { libc::pread(backing.file, at.byte_add(size(done)), size(len - done), from) };
        match u64::try_from(read) {
            // The file is as long as its mapping. Less is there only if the block was freed
            // meanwhile.
            Ok(0) => return true,
            Ok(read) => done += read,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            // The same.
            Err(_) => return true,
        }
    }
    true
}

/// The child cannot have what its parent had: better no child than one that reads something else.
fn give_up() -> ! {
    let text =
        b"zico: no memory for the copies that a forked child needs of its parent's tensors\n";
    // SAFETY: the pointer is to so many bytes; the child ends at once.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(70)
    }
}
