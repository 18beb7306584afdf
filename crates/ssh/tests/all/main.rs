//! The executor against real shells and a real sshd.

#[cfg(test)]
mod common;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod local;
#[cfg(test)]
mod sshd;
mod tcp;
