//! What clients and the broker say, as bytes.
//!
//! A message is the [postcard](https://postcard.jamesmunns.com) form of [`Up`] or [`Down`], cut
//! into packets: one byte that says whether another packet follows, then a part of the message.
//! Descriptors travel with a message's last packet.

use serde::{Deserialize, Serialize};
use zico_core::broker::{Notice, Reply, Request};
use zico_core::{Bytes, JobId};

/// The version of what is said. Both sides have to have the same.
pub const VERSION: u32 = 9;

/// The longest packet, in bytes.
pub const LONGEST_PACKET: usize = 32 << 10;

/// The longest message that the broker takes from a client, in bytes.
pub const LONGEST_UP: usize = 1 << 20;

/// The longest message that a client takes from the broker, in bytes.
pub const LONGEST_DOWN: usize = 16 << 20;

/// The last packet of a message.
const LAST: u8 = 0;
/// One that is followed by another.
const MORE: u8 = 1;

/// From a client to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Up {
    /// The first message. With it come two descriptors from a client that is to have jobs: the page
    /// that it shares with the broker, and a socket on which the broker says what it is not asked.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// It only looks, and is to have no jobs.
        only_looks: bool,
        /// It has jobs from a broker before this one.
        resumes: bool,
    },
    /// A request, about one of its jobs unless it is of the pool.
    Request(Option<JobId>, Request),
    /// A job's pulse is in this place of the shared page.
    Slot(JobId, u8),
    /// A descriptor of a region's memory is to be sent: [`Down::Memory`].
    Fetch(u32),
    /// The memory of a region that the client has from the broker before this one: a descriptor
    /// comes with it. [`Down::Memory`] says whether it is taken in.
    HandIn(u32),
    /// The client has said all that it has from the broker before this one. So many connections to
    /// the broker its process has in all: each of them says so.
    Recovered(u32),
}

/// From the broker to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Down {
    /// The client has been let in.
    Welcome(Welcome),
    /// It has not, and why. The connection ends.
    Refused(Rejection),
    /// To [`Up::Request`].
    Reply(Reply),
    /// To [`Up::Fetch`]: whether the memory's descriptor comes with this. To [`Up::HandIn`]:
    /// whether it is taken in.
    Memory(bool),
    /// Unasked, on the socket that is there for it.
    Notice(Notice),
}

/// What a client that has been let in has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The size of a region.
    pub region: Bytes,
    /// The memory of the device.
    pub capacity: Bytes,
    /// Which device it is: "host", or the UUID of a GPU.
    pub device: String,
    /// Processes that have yet to tell what they hold from the broker before this one. As long as
    /// there are any, nobody gets anything.
    pub awaits: Vec<u32>,
}

impl Welcome {
    /// Whether both are of brokers of the same device.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.region, self.capacity, &self.device) == (other.region, other.capacity, &other.device)
    }
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// It speaks another version.
    #[error("this client speaks version {client} of the protocol, the broker {broker}")]
    Version {
        /// The client's.
        client: u32,
        /// The broker's.
        broker: u32,
    },
    /// Its user may not connect.
    #[error(
        "user {user} may not connect: the broker serves user {owner} (--allow-user lets others in)"
    )]
    User {
        /// The client's user.
        user: u32,
        /// The broker's.
        owner: u32,
    },
    /// There are as many clients as there may be.
    #[error("the broker serves {most} clients already, and no more")]
    TooMany {
        /// How many.
        most: usize,
    },
    /// The first message is not what it has to be, or what has to come with it is not.
    #[error("the first message is none: {0}")]
    Hello(Fault),
}

/// What is wrong with what a client has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes that are no message.
    #[error("bytes that are no message")]
    Bytes,
    /// A message that is too long.
    #[error("a message of more than {most} bytes")]
    Long {
        /// The most bytes that there may be.
        most: usize,
    },
    /// Descriptors are missing, or there are too many.
    #[error("{found} descriptors where there have to be {expected}")]
    Descriptors {
        /// How many came.
        found: usize,
        /// How many have to.
        expected: usize,
    },
    /// What is to be the shared page is none: not a sealed file in memory of one page.
    #[error("what is to be the shared page is not a sealed file in memory of {len} bytes")]
    Page {
        /// The length that it has to have.
        len: usize,
    },
    /// What is to be a socket is none.
    #[error("what is to be a socket is none")]
    Socket,
    /// A place of the page that there is not, or that another job has.
    #[error("a place in the shared page that is not there or not free")]
    Slot,
    /// A message that does not belong here.
    #[error("a message out of order")]
    Order,
    /// It asks and does not read the answers.
    #[error("it does not read what it has asked for")]
    Deaf,
}

/// Cuts a message into packets.
#[must_use]
pub fn packets(message: &impl Serialize) -> Vec<Vec<u8>> {
    // Only a type that cannot be serialised at all fails here: these can.
    let bytes = postcard::to_allocvec(message).unwrap_or_default();
    let parts: Vec<&[u8]> = match bytes.is_empty() {
        true => vec![&[][..]],
        false => bytes.chunks(LONGEST_PACKET - 1).collect(),
    };
    let last = parts.len() - 1;
    let packet = |(at, part): (usize, &[u8])| {
        let mut packet = Vec::with_capacity(part.len() + 1);
        packet.push(if at == last { LAST } else { MORE });
        packet.extend_from_slice(part);
        packet
    };
    parts.into_iter().enumerate().map(packet).collect()
}

/// Puts messages together from their packets.
#[derive(Debug)]
pub struct Assembler {
    bytes: Vec<u8>,
    most: usize,
}

impl Assembler {
    /// For messages of at most so many bytes.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    /// One more packet. The message, if it was the last of one.
    ///
    /// # Errors
    /// If it is none, or the message is too long.
    pub fn push<T: for<'a> Deserialize<'a>>(&mut self, packet: &[u8]) -> Result<Option<T>, Fault> {
        let (&mark, part) = packet.split_first().ok_or(Fault::Bytes)?;
        if self.bytes.len() + part.len() > self.most {
            return Err(Fault::Long { most: self.most });
        }
        match mark {
            MORE => {
                self.bytes.extend_from_slice(part);
                Ok(None)
            }
            LAST if self.bytes.is_empty() => message(part).map(Some),
            LAST => {
                self.bytes.extend_from_slice(part);
                message(&std::mem::take(&mut self.bytes)).map(Some)
            }
            _ => Err(Fault::Bytes),
        }
    }
}

/// All bytes are to be the message.
fn message<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Fault> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Fault::Bytes),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use zico_core::Lifetime;

    use super::*;

    fn through(message: &Up, most: usize) -> Result<(usize, Option<Up>), Fault> {
        let packets = packets(message);
        let mut assembler = Assembler::new(most);
        let mut last = None;
        for packet in &packets {
            assert!(packet.len() <= LONGEST_PACKET);
            assert_eq!(last, None, "a message before its last packet");
            last = assembler.push(packet)?;
        }
        Ok((packets.len(), last))
    }

    #[test]
    fn a_message_comes_out_as_it_went_in_however_long() {
        for (pages, packets) in [(0, 1), (10, 1), (100_000, 10)] {
            let pages: Vec<u64> = (1_000_000..1_000_000 + pages).collect();
            let message = Up::Request(None, Request::GiveBack(Lifetime::Iteration, pages));
            assert_eq!(through(&message, LONGEST_UP).unwrap(), (packets, Some(message)));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let push = |packet: &[u8]| Assembler::new(100).push::<Up>(packet);
        for packet in [&[][..], &[LAST], &[2, 0], &[LAST, 250], &[LAST, 3, 1, 1]] {
            assert_eq!(push(packet), Err(Fault::Bytes), "{packet:?}");
        }
        let pages = vec![u64::MAX; 100];
        let long = Up::Request(None, Request::GiveBack(Lifetime::Iteration, pages));
        assert_eq!(through(&long, 100), Err(Fault::Long { most: 100 }));
        // A length that promises more than there is allocates nothing of that size.
        assert_eq!(
            push(&[LAST, 1, 0, 11, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            Err(Fault::Bytes)
        );
    }
}
