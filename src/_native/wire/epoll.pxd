"""The part of epoll(7) that is used here."""

from libc.stdint cimport uint32_t

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll_fd, int op, int fd, epoll_event* event)
    int epoll_wait(int epoll_fd, epoll_event* events, int count, int timeout_ms)
    int EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CLOEXEC
    enum: EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP
