// The first process of a guest of machine_test. It does what the first sector of its disk says, and tells on
// the console what it finds.
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <sched.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

namespace {

constexpr size_t kSector = 512;

[[noreturn]] void power_off() {
    ::sync();
    if (::ioperm(0x600, 1, 1) == 0) outb(0x34, 0x600);
    std::printf("the machine could not be turned off\n");
    for (;;) ::pause();
}

std::string first_line(const char* path) {
    std::ifstream file(path);
    std::string line = "?";
    std::getline(file, line);
    return line;
}

// Runs on every processor in turn, and sleeps there.
void visit_processors() {
    const long count = ::sysconf(_SC_NPROCESSORS_ONLN);
    int visited = 0;
    for (int cpu = 0; cpu < count; ++cpu) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        const timespec moment{0, 2'000'000};
        if (::sched_setaffinity(0, sizeof set, &set) == 0 && ::nanosleep(&moment, nullptr) == 0 &&
            ::sched_getcpu() == cpu)
            ++visited;
    }
    std::printf("processors: %ld, visited: %d\n", count, visited);
}

void use_disk() {
    const int fd = ::open("/dev/vda", O_RDWR | O_DIRECT);
    alignas(4096) static char out[1 << 20], in[1 << 20];
    for (size_t i = 0; i < sizeof out; ++i) out[i] = static_cast<char>(i * 7 + i / kSector);
    const bool written = ::pwrite(fd, out, sizeof out, sizeof out) == sizeof out && ::fsync(fd) == 0;
    const bool same =
        ::pread(fd, in, sizeof in, sizeof out) == sizeof in && std::memcmp(in, out, sizeof in) == 0;
    std::printf("disk: %s\n", written && same ? "good" : "bad");
    ::close(fd);
}

void use_rng() {
    char bytes[64] = {};
    const int fd = ::open("/dev/hwrng", O_RDONLY);
    std::printf("rng: %s %zd\n", first_line("/sys/class/misc/hw_random/rng_current").c_str(),
                ::read(fd, bytes, sizeof bytes));
    ::close(fd);
}

int dial() {
    const int fd = ::socket(AF_VSOCK, SOCK_STREAM, 0);
    sockaddr_vm address{};
    address.svm_family = AF_VSOCK;
    address.svm_cid = VMADDR_CID_HOST;
    address.svm_port = 5000;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    std::printf("no connection: %s\n", std::strerror(errno));
    power_off();
}

// Sends "B" when it boots and "R" when its connection was reset, then for every byte that comes how many did
// in its whole life, and ends with a zero. The pages in between are what another machine must not see.
void remember() {
    static unsigned char pages[64][4096];
    unsigned char count = 0;
    for (char word = 'B';; word = 'R') {
        const int fd = dial();
        (void)!::write(fd, &word, 1);
        char command;
        while (::read(fd, &command, 1) == 1) {
            // Not with a port: QEMU's emulation refuses those to user space in a machine that was restored,
            // since it takes a task that is marked as busy, as the hardware does, for a wrong one.
            if (command == 0) ::reboot(RB_AUTOBOOT);
            ++count;
            for (auto& page : pages) page[0] = static_cast<unsigned char>(page[0] + 1);
            for (const auto& page : pages)
                if (page[0] != count) std::printf("a page has %d and not %d\n", page[0], count);
            (void)!::write(fd, &count, 1);
        }
        ::close(fd);
    }
}

// Sends what comes back the same.
void use_vsock() {
    const int fd = dial();
    char answer[16] = {};
    const bool good = ::write(fd, "ping", 4) == 4 && ::read(fd, answer, sizeof answer) > 0;
    std::printf("vsock: %s\n", good ? answer : std::strerror(errno));
    ::close(fd);
}

void report() {
    std::printf("clock: %s, time: %ld\n",
                first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource").c_str(),
                static_cast<long>(std::time(nullptr)));
    std::printf("%s\n", first_line("/proc/meminfo").c_str());
    visit_processors();
    use_disk();
    use_rng();
    use_vsock();
    std::printf("report over\n");
}

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    ::mount("dev", "/dev", "devtmpfs", 0, nullptr);
    ::mount("proc", "/proc", "proc", 0, nullptr);
    ::mount("sys", "/sys", "sysfs", 0, nullptr);
    char command[kSector + 1] = {};
    const int disk = ::open("/dev/vda", O_RDONLY);
    if (::pread(disk, command, kSector, 0) != kSector) std::printf("no disk: %s\n", std::strerror(errno));
    ::close(disk);
    std::printf("init: %s\n", command);
    if (std::strcmp(command, "report") == 0) report();
    if (std::strcmp(command, "remember") == 0) remember();
    while (std::strcmp(command, "idle") == 0) ::pause();
    if (std::strcmp(command, "restart") == 0) ::reboot(RB_AUTOBOOT);
    if (std::strcmp(command, "panic") == 0) return 1;
    power_off();
}
