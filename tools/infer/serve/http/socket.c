/* socket.c: what a server asks of its sockets. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* POLLRDHUP */
#endif
#include "../serve.h"

#ifdef _WIN32
#  define WIN32_LEAN_AND_MEAN
#  include <winsock2.h>
#  include <ws2tcpip.h>

int system_socket_open(int fd) {
    char byte;
    u_long on = 1;
    int n;
    ioctlsocket((SOCKET)fd, FIONBIO, &on);
    n = recv((SOCKET)fd, &byte, 1, MSG_PEEK);
    return n > 0 || (n < 0 && WSAGetLastError() == WSAEWOULDBLOCK);
}
void system_socket_end(int fd) { shutdown((SOCKET)fd, SD_BOTH); }

#else
#  include <errno.h>
#  include <poll.h>
#  include <sys/socket.h>

int system_socket_open(int fd) {
    char byte;
    const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
#  ifdef POLLRDHUP
    struct pollfd p; /* an end that comes after bytes which nobody has read yet */
    p.fd = fd;
    p.events = POLLRDHUP;
    p.revents = 0;
    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR))) return 0;
#  endif
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

void system_socket_end(int fd) { shutdown(fd, SHUT_RDWR); }

#endif
