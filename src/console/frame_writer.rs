//! Terminal output: each frame is sent as one synchronized write and counted.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use seckill_model::text;

/// Marks a frame as a synchronized update (DEC mode 2026), so that the terminal shows no partial frame; terminals
/// without it ignore the sequence.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// Output counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Bytes of the last frame.
    pub(crate) last: u64,
}

impl Drawn {
    /// The number of frames, and their size.
    pub(crate) fn summary(self) -> Option<String> {
        let mean = self.bytes.checked_div(self.frames)?;
        let (frames, last) = (self.frames, self.last);
        Some(text!("export-frames-bytes-on-average-last", frames, mean, last))
    }
}

/// Buffers output until the frame is complete. Clones share the buffer: the terminal library keeps one of them and
/// flushes mid-frame.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameWriter(Arc<Mutex<Vec<u8>>>);

impl FrameWriter {
    fn held(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the buffer in one write and returns its length; does nothing if it is empty.
    pub(super) fn send(&self, out: &mut impl Write, drawn: &mut Drawn) -> io::Result<()> {
        let mut held = self.held();
        if held.is_empty() {
            return Ok(());
        }
        let mut snapshot = Vec::with_capacity(BEGIN.len() + held.len() + END.len());
        snapshot.extend_from_slice(BEGIN);
        snapshot.append(&mut held);
        snapshot.extend_from_slice(END);
        drop(held);
        out.write_all(&snapshot)?;
        out.flush()?;
        drawn.last = snapshot.len() as u64;
        drawn.frames += 1;
        drawn.bytes += drawn.last;
        Ok(())
    }
}

impl Write for FrameWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_sent_whole_and_counted() {
        let writer = FrameWriter::default();
        let mut hand = writer.clone();
        let (mut out, mut drawn) = (Vec::new(), Drawn::default());
        writer.send(&mut out, &mut drawn).unwrap();
        assert_eq!((out.as_slice(), drawn.summary()), (&b""[..], None), "nothing is no frame");
        hand.write_all(b"ab").unwrap();
        hand.flush().unwrap();
        hand.write_all(b"c").unwrap();
        writer.send(&mut out, &mut drawn).unwrap();
        assert_eq!(out, b"\x1b[?2026habc\x1b[?2026l");
        assert_eq!(drawn, Drawn { frames: 1, bytes: 19, last: 19 });
    }
}
