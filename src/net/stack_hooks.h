// The system calls with which libslirp reaches the outside, as functions of this program that the dynamic
// linker finds before libc's. Outside of a Scope they are what they always were.
#pragma once

#include "net/stack.h"

namespace boxlite::net {

class StackHooks {
  public:
    // While one of these lives, the calls are the stack's.
    class Scope {
      public:
        explicit Scope(Stack& stack);
        ~Scope();
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;
    };

    static int connect(Stack& stack, int fd, const sockaddr* address);
    // Takes the place of binding a listener. False when it is none that is being published.
    static bool bind(Stack& stack, int fd);
};

}  // namespace boxlite::net
