//! Reasons why the records of runs in a cluster are not read or not written.

use crate::fault::Fault;
use crate::options::UnreadIdentities;
use base64::DecodeError;
use std::io;
use thiserror::Error;

/// The reason why a record was not read or not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The server gave no answer, or refused.
    #[error(transparent)]
    Api(#[from] Fault),
    /// A record is there and was not read.
    #[error(transparent)]
    Unread(#[from] RecordReadError),
    /// The record has no JSON.
    #[error("the record cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The record was not compressed.
    #[error("the record cannot be packed: {0}")]
    Pack(#[from] io::Error),
    /// It cannot be encrypted.
    #[error(transparent)]
    Seal(#[from] SecretSealError),
    /// The journal is above the limit of a Secret.
    #[error("the journal of this run is full; divide the run with --tags or --limit")]
    JournalFull,
    /// The list of managed objects is above the limit of a Secret.
    #[error("the record of what is managed is full")]
    ManagedFull,
    /// The list of workloads is above the limit of a Secret.
    #[error("the record of what workloads were started with is full")]
    StartedFull,
    /// One content alone is above the limit of a Secret.
    #[error("it is too large for a Secret")]
    TooLarge,
    /// A content that is to be saved is no UTF-8.
    #[error("the state before is not text")]
    NotText,
    /// Another run, or none, is at work here.
    #[error("the run is not open on the cluster")]
    NotOpen,
}

/// The reason why a record was not read. It is named as NAMESPACE/SECRET.
#[derive(Debug, Error)]
pub enum RecordReadError {
    /// It has another format: most likely a later converge has written it.
    #[error(
        "the record {record} in the cluster is not understood: it has format {found}, this converge reads {newest}"
    )]
    Format {
        /// The record.
        record: String,
        /// Its format.
        found: u64,
        /// The newest one that is read.
        newest: u32,
    },
    /// It is no record.
    #[error("the record {record} in the cluster is not understood: {damage}")]
    Damaged {
        /// The record.
        record: String,
        /// The place of the damage.
        damage: Damage,
    },
}

/// The damage of a record.
#[derive(Debug, Error)]
pub enum Damage {
    /// The Secret's value is no Base64.
    #[error(transparent)]
    Base64(#[from] DecodeError),
    /// It cannot be unpacked.
    #[error(transparent)]
    Packed(#[from] io::Error),
    /// It is not JSON, or not that of such a record.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It names no format.
    #[error("it has no format")]
    NoFormat,
}

/// The reason why saved values were not encrypted, or cannot be read again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretSealError {
    /// One of the recipients is none of age's.
    #[error("{0}")]
    Recipient(&'static str),
    /// age takes these recipients for none that go together.
    #[error(transparent)]
    Encrypt(#[from] age::EncryptError),
    /// The encrypted or the decrypted bytes did not come through.
    #[error(transparent)]
    Stream(#[from] io::Error),
    /// One of the identities is none of age's. Nothing of it is reported.
    #[error("an age identity is not of the form AGE-SECRET-KEY-1…")]
    Identity,
    /// The file of the identities cannot be read.
    #[error(transparent)]
    Unread(UnreadIdentities),
    /// There is no identity.
    #[error("`converge_age_identity` names no file with an age identity to read it with")]
    NoIdentity,
    /// The saved text is no Base64.
    #[error(transparent)]
    Base64(#[from] DecodeError),
    /// None of the identities opens it.
    #[error("the age identity that `converge_age_identity` names does not open it: {0}")]
    Decrypt(#[from] age::DecryptError),
    /// The values are no JSON, or not of the form that was saved.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}
