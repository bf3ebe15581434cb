//! Every bound of the server, with its reason.

use std::time::Duration;
use tg_types::Amount;

/// Largest body of a request: the longest transaction as hex and some to spare, or 5,000 ordinary
/// ones and half of it to spare.
pub const BODY_BYTES_MAX: usize = 5 << 20;

/// Bytes of request bodies held at the same time, over all connections. Parsed JSON takes up to
/// three times as much, so this keeps the worst case near 100 MiB.
pub const BODIES_BYTES_MAX: usize = 32 << 20;

/// Values in one body, estimated by counting separators. Each becomes a few dozen bytes in memory,
/// so many tiny values would otherwise cost far more than the bytes they came in.
pub const BODY_VALUES_MAX: usize = 32_768;

/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections open at the same time; further ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 4_096;

/// Calls under way at the same time. A call that waits for finality takes about 150 ms, so 4,096
/// carry more single submissions per second than the chain itself.
pub const CALLS_MAX: usize = 4_096;

/// Calls in one batch.
pub const BATCH_CALLS_MAX: usize = 64;

/// Transactions in one `submit`: what fits in a body if they are small.
pub const SUBMIT_TXS_MAX: usize = 10_000;

/// How long `submit` waits for finality if the caller does not say.
pub const SUBMIT_WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// How long `submit` waits at most: longer than that, asking again is better than waiting.
pub const SUBMIT_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long `receipt`, `prove` and `certificate` wait for a certificate if the caller does not say.
/// A certificate comes about one block time after its block.
pub const CERTIFICATE_WAIT_DEFAULT: Duration = Duration::from_secs(3);

/// How long they wait at most.
pub const CERTIFICATE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How often a certificate that is not there yet is looked for. Certificates have no listeners;
/// this is below what a person or a program notices.
pub const CERTIFICATE_POLL: Duration = Duration::from_millis(20);

/// How long single submissions are collected so that their signatures are checked together. A batch
/// costs less than half, and nobody notices a millisecond.
pub const COLLECT_TIME: Duration = Duration::from_millis(1);

/// Transactions that are enough for a batch: beyond it checking together gains little.
pub const COLLECT_TXS_MAX: usize = 1_024;

/// Submissions waiting to be checked. More are refused as busy, which is better than being late.
pub const COLLECT_QUEUE_MAX: usize = 4_096;

/// Listeners of the event stream; each costs a buffer and a share of every block.
pub const LISTENERS_MAX: usize = 64;

/// How often a silent event stream shows that it lives.
pub const STREAM_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Nodes listed if the caller does not say.
pub const NODES_DEFAULT: u32 = 100;

/// Nodes listed at most: about a megabyte of answer.
pub const NODES_MAX: u32 = 1_000;

/// Jobs listed if the caller does not say: what a page shows at once.
pub const JOBS_DEFAULT: u32 = 20;

/// Jobs listed at most: a job has up to 80 runs and checks, so this is some megabytes at worst.
pub const JOBS_MAX: u32 = 100;

/// Blocks that the history of a job is read from: more than a job that went well needs twenty times
/// over, and enough for long disputes.
pub const JOB_BLOCKS_MAX: usize = 256;

/// Blocks that the history of a node is read from at once: a page of it.
pub const NODE_BLOCKS_MAX: usize = 32;

/// Nodes that are looked at to say why jobs of a list wait. With more, only a job's own page says.
pub const WHY_NODES_MAX: u64 = 512;

/// Nodes on the first page; the others are on pages of their own.
pub const FRONT_NODES: u32 = 6;

/// Nodes on one page of nodes.
pub const PAGE_NODES: u32 = 50;

/// Orders waiting for the faucet, which serves them one by one.
pub const FAUCET_QUEUE_MAX: usize = 64;

/// What the faucet gives if the caller does not say: enough for a day of trying things out.
pub const FAUCET_AMOUNT_DEFAULT: Amount = Amount::constant(100_000_000_000);

/// What the faucet gives at most at once, so that it lasts.
pub const FAUCET_AMOUNT_MAX: Amount = Amount::constant(10_000_000_000_000);

/// Orders of one account in a window: a script may retry, a loop may not.
pub const FAUCET_ACCOUNT_ORDERS_MAX: usize = 10;

/// Orders of all accounts in a window; also bounds what the faucet remembers.
pub const FAUCET_ORDERS_MAX: usize = 600;

/// The span over which the faucet's orders are counted.
pub const FAUCET_WINDOW: Duration = Duration::from_secs(60);

/// How long open calls may take to end after the server was told to stop.
pub const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long to wait after the operating system refused a connection, for instance because too many
/// files are open.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Threads for signature checks. The collector has one batch checked at a time.
pub const CHECK_THREADS: usize = 1;
