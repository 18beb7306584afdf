//! A delay line between two bridges: every Ethernet frame is held for a fixed time in each direction.
//!
//! `tc netem` would do it too, but many kernels of small virtual machines lack it; TAP devices are everywhere.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// A frame of a jumbo link fits; the lab's links carry 1500 bytes.
const FRAME: usize = 9 * 1024;
/// Frames held per direction; more are dropped, as a full router queue would.
const QUEUE: usize = 16 * 1024;
/// How often the forwarder looks whether it shall stop.
const TICK: Duration = Duration::from_millis(200);

/// Frames that wait for their time.
#[derive(Default)]
struct FrameQueue {
    waiting: VecDeque<(Instant, Box<[u8]>)>,
}

impl FrameQueue {
    fn push(&mut self, due: Instant, frame: &[u8]) {
        if self.waiting.len() < QUEUE {
            self.waiting.push_back((due, frame.into()));
        }
    }

    /// The next frame whose time has come.
    fn pop_due(&mut self, now: Instant) -> Option<Box<[u8]>> {
        if self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            return self.waiting.pop_front().map(|(_, frame)| frame);
        }
        None
    }

    fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }
}

/// The two TAP devices of a delay line.
pub(crate) struct Taps([SyncDevice; 2]);

impl Taps {
    /// Opens both devices, which must exist and belong to the caller.
    pub(crate) fn open(a: &str, b: &str) -> Result<Self> {
        Ok(Self([open(a)?, open(b)?]))
    }

    /// Forwards frames until `stop` says so or a device is taken away.
    pub(crate) fn forward(&self, delay: Duration, stop: &dyn Fn() -> bool) -> Result<()> {
        forward_between(&self.0, delay, stop)
    }
}

/// Forwards frames between the TAP devices `a` and `b`, each held for `delay` (one way), until `stop` says so or a device
/// is taken away.
///
/// Both devices must exist and belong to the caller. Errors are those of the devices.
pub fn forward(a: &str, b: &str, delay: Duration, stop: &dyn Fn() -> bool) -> Result<()> {
    Taps::open(a, b)?.forward(delay, stop)
}

fn forward_between([a, b]: &[SyncDevice; 2], delay: Duration, stop: &dyn Fn() -> bool) -> Result<()> {
    let (mut to_b, mut to_a) = (FrameQueue::default(), FrameQueue::default());
    let mut buffer = vec![0_u8; FRAME];
    while !stop() {
        let now = Instant::now();
        deliver(&mut to_b, b, now)?;
        deliver(&mut to_a, a, now)?;
        let next = [to_b.next_due(), to_a.next_due()].into_iter().flatten().min();
        let wait = next.map_or(TICK, |due| due.saturating_duration_since(Instant::now()).min(TICK));
        let timeout = Timespec::try_from(wait).map_err(Error::other)?;
        let mut ready = [
            PollFd::from_borrowed_fd(a.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(b.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let [from_a, from_b] = ready.each_ref().map(PollFd::revents);
        for (events, tap, line) in [(from_a, a, &mut to_b), (from_b, b, &mut to_a)] {
            if events.contains(PollFlags::IN) {
                receive(tap, line, delay, &mut buffer)?;
            } else if events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                return Err(Error::new(ErrorKind::NotConnected, "the TAP device is gone"));
            }
        }
    }
    Ok(())
}

fn open(name: &str) -> Result<SyncDevice> {
    let tap = DeviceBuilder::new()
        .name(name)
        .layer(Layer::L2)
        .offload(false)
        .inherit_enable_state()
        .build_sync()?;
    tap.set_nonblocking(true)?;
    Ok(tap)
}

fn deliver(line: &mut FrameQueue, tap: &SyncDevice, now: Instant) -> Result<()> {
    while let Some(frame) = line.pop_due(now) {
        match tap.send(&frame) {
            Ok(_) => {}
            // A full or downed link loses frames: that is what Ethernet does.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(tap: &SyncDevice, line: &mut FrameQueue, delay: Duration, buffer: &mut [u8]) -> Result<()> {
    loop {
        match tap.recv(buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => line.push(Instant::now() + delay, buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_order_and_not_before_their_time() {
        let start = Instant::now();
        let mut line = FrameQueue::default();
        line.push(start + Duration::from_millis(10), b"one");
        line.push(start + Duration::from_millis(11), b"two");
        assert_eq!(line.pop_due(start), None);
        assert_eq!(line.next_due(), Some(start + Duration::from_millis(10)));
        let later = start + Duration::from_millis(20);
        assert_eq!(line.pop_due(later).as_deref(), Some(&b"one"[..]));
        assert_eq!(line.pop_due(later).as_deref(), Some(&b"two"[..]));
        assert_eq!(line.pop_due(later), None);
    }

    #[test]
    fn a_full_line_drops_frames() {
        let mut line = FrameQueue::default();
        let now = Instant::now();
        for _ in 0..QUEUE + 5 {
            line.push(now, b"x");
        }
        assert_eq!(line.waiting.len(), QUEUE);
    }
}
