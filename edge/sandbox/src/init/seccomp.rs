//! The filter for system calls: what ordinary programs use is allowed, everything else does not
//! exist. Of what is allowed, a second filter refuses what would reach out of this sandbox.
//!
//! Two filters are in force; the kernel takes the stricter answer, and of two refusals that of the
//! filter installed last. An allow-list is the only kind that also covers calls of tomorrow and
//! those of the other instruction sets that a processor understands.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::spec::{Shares, Sockets};

/// Restricts this process and all it starts.
pub(super) fn restrict(sockets: Sockets, shares: Shares) -> io::Result<()> {
    let bad = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
    for filter in [allowed(architecture), refused(architecture, sockets, shares)] {
        apply_filter(&filter.map_err(bad)?).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            seccompiler::Error::Backend(_)
            | seccompiler::Error::EmptyFilter
            | seccompiler::Error::ThreadSync(_) => io::Error::from_raw_os_error(libc::EINVAL),
        })?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn allowed(architecture: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|&call| (call, vec![])).collect();
    let otherwise = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, architecture)?.try_into()
}

fn refused(
    architecture: TargetArch,
    sockets: Sockets,
    shares: Shares,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = Rules::new();
    let word = SeccompCmpArgLen::Dword;
    for flag in NAMESPACE_FLAGS {
        let flag = u64::from(flag.unsigned_abs());
        let is_set = SeccompCondition::new(0, word.clone(), SeccompCmpOp::MaskedEq(flag), flag)?;
        rules.entry(libc::SYS_clone).or_default().push(SeccompRule::new(vec![is_set])?);
    }
    for command in TERMINAL_COMMANDS {
        let is_command = SeccompCondition::new(1, word.clone(), SeccompCmpOp::Eq, command)?;
        rules.entry(libc::SYS_ioctl).or_default().push(SeccompRule::new(vec![is_command])?);
    }
    let families: &[libc::c_int] = match sockets {
        Sockets::Pairs => &[],
        Sockets::Local => &[libc::AF_UNIX],
        Sockets::Internet => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
    };
    let is_other = |&family: &libc::c_int| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, word.clone(), SeccompCmpOp::Ne, family)
    };
    let others = families.iter().map(is_other).collect::<Result<Vec<_>, _>>()?;
    let rule = if others.is_empty() { vec![] } else { vec![SeccompRule::new(others)?] };
    rules.insert(libc::SYS_socket, rule);
    if shares != Shares::Nothing {
        rules.extend(REFUSED_SHARED.iter().map(|&call| (call, vec![])));
        for call in REFUSED_TO_OTHERS {
            let is_other = SeccompCondition::new(0, word.clone(), SeccompCmpOp::Ne, 0)?;
            rules.insert(call, vec![SeccompRule::new(vec![is_other])?]);
        }
    }
    if shares == Shares::User {
        let calls = REFUSED_SAME_USER.iter().chain(REFUSED_SAME_USER_HERE);
        rules.extend(calls.map(|&call| (call, vec![])));
    }
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
}

/// Making namespaces gives a process powers over kernel code that nobody else reaches.
const NAMESPACE_FLAGS: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Typing into a terminal: `TIOCSTI` and `TIOCLINUX`.
const TERMINAL_COMMANDS: [u64; 2] = [0x5412, 0x541C];

/// What ordinary programs use, on every kind of processor.
#[rustfmt::skip] // one list to be read across
const ALLOWED: &[i64] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget,
    libc::SYS_capset, libc::SYS_chdir, libc::SYS_clock_getres, libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep, libc::SYS_clone, libc::SYS_close, libc::SYS_close_range,
    libc::SYS_connect, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2, libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64,
    libc::SYS_fallocate, libc::SYS_fchdir, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown,
    libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_fgetxattr,
    libc::SYS_flistxattr, libc::SYS_flock, libc::SYS_fremovexattr, libc::SYS_fsetxattr,
    libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_futex,
    libc::SYS_futex_waitv, libc::SYS_get_mempolicy, libc::SYS_get_robust_list, libc::SYS_getcpu,
    libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getitimer, libc::SYS_getpeername,
    libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpriority,
    libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrusage,
    libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid,
    libc::SYS_gettimeofday, libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_ioctl, libc::SYS_ioprio_get,
    libc::SYS_ioprio_set, libc::SYS_kill, libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_lgetxattr,
    libc::SYS_linkat, libc::SYS_listen, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_lremovexattr, libc::SYS_lseek, libc::SYS_lsetxattr, libc::SYS_madvise,
    libc::SYS_mbind, libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mincore,
    libc::SYS_mkdirat, libc::SYS_mknodat, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall,
    libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mq_getsetattr, libc::SYS_mq_notify,
    libc::SYS_mq_open, libc::SYS_mq_timedreceive, libc::SYS_mq_timedsend, libc::SYS_mq_unlink,
    libc::SYS_mremap, libc::SYS_mseal, libc::SYS_msgctl, libc::SYS_msgget, libc::SYS_msgrcv,
    libc::SYS_msgsnd, libc::SYS_msync, libc::SYS_munlock, libc::SYS_munlockall, libc::SYS_munmap,
    libc::SYS_nanosleep, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2,
    libc::SYS_personality, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_pipe2,
    libc::SYS_pkey_alloc, libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_ppoll,
    libc::SYS_prctl, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_prlimit64,
    libc::SYS_process_madvise, libc::SYS_process_mrelease, libc::SYS_pselect6, libc::SYS_pwrite64,
    libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead,
    libc::SYS_readlinkat, libc::SYS_readv, libc::SYS_recvfrom, libc::SYS_recvmmsg,
    libc::SYS_recvmsg, libc::SYS_removexattr, libc::SYS_renameat2, libc::SYS_restart_syscall,
    libc::SYS_rseq, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigqueueinfo, libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity, libc::SYS_sched_getattr,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_rr_get_interval,
    libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler, libc::SYS_sched_yield, libc::SYS_seccomp, libc::SYS_semctl,
    libc::SYS_semget, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_sendfile,
    libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_set_mempolicy,
    libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setfsgid, libc::SYS_setfsuid,
    libc::SYS_setgid, libc::SYS_setgroups, libc::SYS_setitimer, libc::SYS_setpgid,
    libc::SYS_setpriority, libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setresuid,
    libc::SYS_setreuid, libc::SYS_setsid, libc::SYS_setsockopt,
    libc::SYS_setuid, libc::SYS_setxattr, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_shmdt,
    libc::SYS_shmget, libc::SYS_shutdown, libc::SYS_sigaltstack, libc::SYS_signalfd4,
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_splice, libc::SYS_statfs, libc::SYS_statx,
    libc::SYS_symlinkat, libc::SYS_sync, libc::SYS_syncfs, libc::SYS_sysinfo, libc::SYS_tee,
    libc::SYS_tgkill, libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_getoverrun,
    libc::SYS_timer_gettime, libc::SYS_timer_settime, libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime, libc::SYS_times, libc::SYS_tkill,
    libc::SYS_truncate, libc::SYS_umask, libc::SYS_uname, libc::SYS_unlinkat, libc::SYS_utimensat,
    libc::SYS_vmsplice, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write, libc::SYS_writev,
];

/// Older names that only this kind of processor has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip] // one list to be read across
const ALLOWED_HERE: &[i64] = &[
    libc::SYS_access, libc::SYS_alarm, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown,
    libc::SYS_creat, libc::SYS_dup2, libc::SYS_epoll_create, libc::SYS_epoll_wait,
    libc::SYS_eventfd, libc::SYS_fchmodat2, libc::SYS_fork, libc::SYS_futimesat,
    libc::SYS_getdents, libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_inotify_init,
    libc::SYS_lchown, libc::SYS_link, libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_mknod,
    libc::SYS_open, libc::SYS_pause, libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink,
    libc::SYS_rename, libc::SYS_renameat, libc::SYS_rmdir, libc::SYS_select, libc::SYS_signalfd,
    libc::SYS_stat, libc::SYS_symlink, libc::SYS_sync_file_range, libc::SYS_time,
    libc::SYS_setrlimit, libc::SYS_unlink, libc::SYS_utime, libc::SYS_utimes, libc::SYS_vfork,
];

/// There are no older names here.
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// Where process numbers are not the task's own: changes other processes by their number. With the
/// number 0, which is oneself, they are allowed.
const REFUSED_TO_OTHERS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Where memory segments are not the task's own: reaches those of others.
#[rustfmt::skip] // one list to be read across
const REFUSED_SHARED: &[i64] = &[
    libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_semget, libc::SYS_semop,
    libc::SYS_semctl, libc::SYS_semtimedop, libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv,
    libc::SYS_msgctl, libc::SYS_mq_open, libc::SYS_mq_unlink, libc::SYS_setpriority,
    libc::SYS_ioprio_set,
];

/// Where files outside belong to the task's user: Landlock does not cover their modes, owners,
/// times and attributes.
#[rustfmt::skip] // one list to be read across
const REFUSED_SAME_USER: &[i64] = &[
    libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_utimensat, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr,
    libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr,
];

/// The same by older names, and by one that is too new for some bindings.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip] // one list to be read across
const REFUSED_SAME_USER_HERE: &[i64] = &[
    libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes,
    libc::SYS_futimesat, libc::SYS_fchmodat2,
];

/// There are none here.
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_SAME_USER_HERE: &[i64] = &[];

#[cfg(test)]
mod tests {
    use super::{ALLOWED, ALLOWED_HERE, allowed, refused};
    use crate::spec::{Shares, Sockets};
    use seccompiler::TargetArch;
    use std::collections::BTreeSet;

    #[test]
    fn what_reaches_beyond_a_process_is_not_allowed() {
        let allowed: BTreeSet<i64> = ALLOWED.iter().chain(ALLOWED_HERE).copied().collect();
        assert_eq!(allowed.len(), ALLOWED.len() + ALLOWED_HERE.len(), "each once");
        let never = [
            libc::SYS_add_key,
            libc::SYS_bpf,
            libc::SYS_chroot,
            libc::SYS_init_module,
            libc::SYS_io_uring_setup,
            libc::SYS_kexec_load,
            libc::SYS_keyctl,
            libc::SYS_mount,
            libc::SYS_open_by_handle_at,
            libc::SYS_perf_event_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pivot_root,
            libc::SYS_process_vm_writev,
            libc::SYS_ptrace,
            libc::SYS_setns,
            libc::SYS_settimeofday,
            libc::SYS_swapon,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
            libc::SYS_clone3, // libraries fall back to `clone`, whose flags can be looked at
        ];
        assert!(never.iter().all(|call| !allowed.contains(call)));
    }

    #[test]
    fn filters_can_be_compiled() {
        let here = TargetArch::try_from(std::env::consts::ARCH).expect("known");
        assert!(allowed(here).is_ok());
        for sockets in [Sockets::Pairs, Sockets::Local, Sockets::Internet] {
            for shares in [Shares::Nothing, Shares::Numbers, Shares::User] {
                assert!(refused(here, sockets, shares).is_ok());
            }
        }
    }
}
