//! A socket between two processes of the tree that carries whole messages, and files.
//!
//! Nobody ever waits in it: what does not fit is kept until it does. The end of the other process is the end of file.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recv, recvmsg, sendmsg, shutdown,
    socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most files that one message brings: the life file and the terminal.
const FILES: usize = 2;

/// How a message leaves: without waiting, and without SIGPIPE.
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// One end of a socket.
pub(super) struct Post {
    socket: OwnedFd,
    unsent: VecDeque<Vec<u8>>,
    ended: bool,
}

/// What was received.
pub(super) enum Mail<T> {
    Message(T, Vec<OwnedFd>),
    /// The other process is gone, or has nothing more to say.
    End,
}

impl Post {
    /// Makes a socket: one end for us, one to become the standard input of a child.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self::over(ours), theirs))
    }

    /// Takes the end that our parent gave us as standard input, and puts /dev/null in its place, so that it does not
    /// leak into children.
    pub(super) fn from_stdin() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        Ok(Self::over(socket))
    }

    fn over(socket: OwnedFd) -> Self {
        Self { socket, unsent: VecDeque::new(), ended: false }
    }

    /// Sends a message, now or as soon as the other one has made room.
    pub(super) fn send(&mut self, message: &impl Serialize) {
        // Our messages have string keys only, so that they always can be written.
        self.unsent.extend(serde_json::to_vec(message));
        self.flush();
    }

    /// Sends a message unless others wait; for what is worth nothing when it is late.
    pub(super) fn offer(&mut self, message: &impl Serialize) {
        if self.unsent.is_empty() {
            self.send(message);
            self.unsent.clear();
        }
    }

    /// Sends a message that brings files along; only ever the first one, so that there is room.
    pub(super) fn send_with(&mut self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, SEND)?;
        Ok(())
    }

    /// Sends what has waited.
    pub(super) fn flush(&mut self) {
        while let Some(bytes) = self.unsent.front() {
            match rustix::net::send(&self.socket, bytes, SEND) {
                Err(Errno::AGAIN) => return,
                // Sent, or nobody is there any more: the end of file will tell.
                _ => drop(self.unsent.pop_front()),
            }
        }
    }

    /// Tells whether messages wait because the other one does not read.
    pub(super) fn is_congested(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Tells whether the other one is gone, as far as has been received.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Receives the next message, if there is one. Something that is none is the end as well: whoever sends it is not
    /// to be trusted with a leash.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> Option<Mail<T>> {
        if self.ended {
            return None;
        }
        match self.try_receive() {
            Ok(mail) => mail,
            Err(_) => {
                self.ended = true;
                Some(Mail::End)
            }
        }
    }

    fn try_receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<Mail<T>>> {
        let Some(length) = self.next_length()? else { return Ok(None) };
        if length == 0 {
            self.ended = true;
            return Ok(Some(Mail::End));
        }
        let mut bytes = vec![0; length];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
        let mut files = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = part {
                files.extend(more);
            }
        }
        bytes.truncate(received.bytes);
        Ok(Some(Mail::Message(serde_json::from_slice(&bytes)?, files)))
    }

    /// Looks how long the next message is; zero at the end.
    fn next_length(&self) -> io::Result<Option<usize>> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        loop {
            return match recv(&self.socket, &mut [0u8; 1][..], flags) {
                Ok((_, length)) => Ok(Some(length)),
                Err(Errno::AGAIN) => Ok(None),
                // The other one died without having read everything. The kernel says so once; what he had sent before
                // is still there.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Says that nothing more will be sent; answers can still be received.
    pub(super) fn finish(&self) {
        // Fails only if the other end is gone.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Tells what to poll for; nothing after the end, which would wake for ever.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let write = if self.is_congested() { PollFlags::OUT } else { PollFlags::empty() };
        (!self.ended).then(|| PollFd::new(&self.socket, PollFlags::IN | write))
    }
}

impl AsFd for Post {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    fn pair() -> (Post, Post) {
        let (ours, theirs) = Post::pair().unwrap();
        (ours, Post::over(theirs))
    }

    fn text(post: &mut Post) -> Option<String> {
        match post.receive()? {
            Mail::Message(text, _) => Some(text),
            Mail::End => Some("end".to_owned()),
        }
    }

    #[test]
    fn messages_arrive_whole_and_in_order_and_then_the_end() {
        let (mut here, mut there) = pair();
        assert_eq!(text(&mut there), None);
        let long = "x".repeat(50_000);
        for message in ["a", &long, "b"] {
            here.send(&message);
        }
        drop(here);
        assert_eq!(text(&mut there).as_deref(), Some("a"));
        assert_eq!(text(&mut there), Some(long));
        assert_eq!(text(&mut there).as_deref(), Some("b"));
        assert_eq!(text(&mut there).as_deref(), Some("end"));
        assert!(there.receive::<String>().is_none() && there.poll_fd().is_none());
    }

    #[test]
    fn what_the_dead_said_is_heard_although_they_had_not_read_everything() {
        let (mut here, mut there) = pair();
        there.send(&"never read");
        here.send(&"last words");
        drop(here);
        assert_eq!(text(&mut there).as_deref(), Some("last words"));
        assert_eq!(text(&mut there).as_deref(), Some("end"));
    }

    #[test]
    fn nobody_waits_for_one_who_does_not_read_and_nothing_is_lost() {
        let (mut here, mut there) = pair();
        let mut sent = 0;
        while !here.is_congested() {
            here.send(&sent.to_string());
            sent += 1;
        }
        here.offer(&"worth nothing later");
        let mut received = 0;
        while received < sent {
            match text(&mut there) {
                Some(number) => {
                    assert_eq!(number, received.to_string());
                    received += 1;
                }
                None => here.flush(),
            }
        }
        assert_eq!(text(&mut there), None);
    }

    #[test]
    fn files_come_along() {
        let (mut here, mut there) = pair();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("life");
        std::fs::write(&path, "inside").unwrap();
        let file = File::open(&path).unwrap();
        here.send_with(&"files", &[file.as_fd(), file.as_fd()]).unwrap();
        let Some(Mail::Message::<String>(_, files)) = there.receive() else { panic!("no message") };
        assert_eq!(files.len(), 2);
        let flags = rustix::io::fcntl_getfd(&files[0]).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let mut inside = String::new();
        File::from(files.into_iter().next().unwrap()).read_to_string(&mut inside).unwrap();
        assert_eq!(inside, "inside");
    }

    #[test]
    fn after_finish_the_other_one_sees_the_end_and_can_still_answer() {
        let (mut here, mut there) = pair();
        here.finish();
        assert_eq!(text(&mut there).as_deref(), Some("end"));
        there.send(&"answer");
        assert_eq!(text(&mut here).as_deref(), Some("answer"));
    }
}
