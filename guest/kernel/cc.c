// SPDX-License-Identifier: Apache-2.0
// The compiler of a kernel build: gcc, but the headers that most files include are read once and then loaded
// (precompiled), because reading them is half of the work.
//
//   cc ARGUMENTS of gcc
//
// precompiled/*.h beside this program are those headers. A file is compiled with them if it defines nothing
// that they could look at; if that fails it is compiled again in the plain way. gcc does not remember that
// the headers guard against being included again, and would read each only to skip it: it finds empty ones
// first. Dependencies are not told: a tree is built once.
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { max_arguments = 1000 };

// What kbuild has every file of the kernel begin with. A header that stands in for them has to come first.
static const char* const preamble[] = {"./include/linux/compiler-version.h", "./include/linux/kconfig.h",
                                       "./include/linux/compiler_types.h"};

struct command {
    char* plain[max_arguments];  // all that does not depend on the file, without the preamble
    int length;
    char* names[max_arguments];  // -DKBUILD_MODNAME=... and the like
    int names_length;
    int preambles;
    char *source, *object, *dependencies;
    bool kernel, compiles;
};

static bool starts_with(const char* text, const char* prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Of a format. Nothing here lives long enough to be freed.
static char* text(const char* format, ...) {
    char* result = NULL;
    va_list values;
    va_start(values, format);
    if (vasprintf(&result, format, values) == -1) abort();
    va_end(values);
    return result;
}

static bool is_preamble(const char* file) {
    for (size_t i = 0; i < sizeof preamble / sizeof *preamble; ++i) {
        if (strcmp(file, preamble[i]) == 0) return true;
    }
    return false;
}

static struct command parse(int count, char** arguments) {
    struct command command = {0};
    for (int i = 1; i < count; ++i) {
        char *argument = arguments[i], *next = i + 1 < count ? arguments[i + 1] : NULL;
        const size_t length = strlen(argument);
        if (strcmp(argument, "-include") == 0 && next && is_preamble(next)) {
            ++command.preambles;
            ++i;
        } else if (strcmp(argument, "-o") == 0 && next) {
            command.object = next;
            ++i;
        } else if (strcmp(argument, "-c") == 0) {
            command.compiles = true;
        } else if (starts_with(argument, "-Wp,-MMD,")) {
            command.dependencies = argument + strlen("-Wp,-MMD,");
        } else if (starts_with(argument, "-DKBUILD_") || starts_with(argument, "-D__KBUILD_")) {
            command.names[command.names_length++] = argument + 2;
        } else if (length > 2 && argument[0] != '-' && strcmp(argument + length - 2, ".c") == 0) {
            command.source = argument;
        } else {
            if (strcmp(argument, "-D__KERNEL__") == 0) command.kernel = true;
            command.plain[command.length++] = argument;
        }
    }
    return command;
}

// Whether headers may be read before the file's own first line: it defines nothing but prefixes of messages
// ahead of an #include, and includes no other source.
static bool order_does_not_matter(const char* source) {
    FILE* file = fopen(source, "r");
    if (!file) return false;
    char* line = NULL;
    size_t size = 0;
    bool fine = true, defined = false;
    while (fine && getline(&line, &size, file) != -1) {
        char directive[16] = "", name[256] = "";
        if (sscanf(line, " # %15[a-z] %255[^ \t\n(]", directive, name) < 1) continue;
        if (strcmp(directive, "include") == 0) {
            const size_t length = strlen(name);
            fine = !defined && !(length > 3 && strcmp(name + length - 3, ".c\"") == 0);
        } else if (strcmp(directive, "define") == 0 || strcmp(directive, "undef") == 0) {
            if (strcmp(name, "pr_fmt") != 0 && strcmp(name, "dev_fmt") != 0 &&
                strcmp(name, "KMSG_COMPONENT") != 0 && strcmp(name, "CREATE_TRACE_POINTS") != 0) {
                defined = true;
            }
        }
    }
    free(line);
    fclose(file);
    return fine;
}

static int run_silently(char** arguments) {
    const pid_t child = vfork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execvp(arguments[0], arguments);
        _exit(127);
    }
    int status = 0;
    if (child == -1 || waitpid(child, &status, 0) == -1) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// gcc FIRST... the command's plain arguments LAST...
static int gcc(const struct command* command, char* const* first, char* const* last) {
    char* arguments[max_arguments] = {"gcc"};
    int length = 1;
    while (*first) arguments[length++] = *first++;
    memcpy(arguments + length, command->plain, (size_t)command->length * sizeof(char*));
    length += command->length;
    while (*last) arguments[length++] = *last++;
    return run_silently(arguments);
}

// Of what decides on the code that comes out; folders and warnings do not.
static uint64_t hash_of_flags(const struct command* command) {
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < command->length; ++i) {
        const char* flag = command->plain[i];
        if (starts_with(flag, "-I") || starts_with(flag, "-W")) continue;
        for (size_t byte = 0; byte <= strlen(flag); ++byte)
            hash = (hash ^ (uint8_t)flag[byte]) * 0x100000001b3;
    }
    return hash;
}

// Headers go with one set of flags, and some sets belong to a single file: the third file with a set has them
// made.
static bool is_common(const char* count_path) {
    const int count = open(count_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (count == -1) return false;
    struct stat status;
    const bool common = flock(count, LOCK_EX) == 0 && write(count, ".", 1) == 1 &&
                        fstat(count, &status) == 0 && status.st_size >= 3;
    close(count);
    return common;
}

// Makes RESULT from HEADER with this command's flags, if another process has not. When that fails it is
// empty, and nobody tries again.
static bool precompile(const struct command* command, char* header, char* result) {
    const int lock = open(header, O_RDONLY | O_CLOEXEC);
    if (lock == -1 || flock(lock, LOCK_EX) == -1) return false;
    bool made = access(result, R_OK) == 0;
    if (!made) {
        char* fresh = text("%s.new", result);
        char* first[] = {"-include", (char*)preamble[0], "-include", (char*)preamble[1],
                         "-include", (char*)preamble[2], NULL};
        char* last[] = {"-x", "c-header", header, "-o", fresh, NULL};
        made = gcc(command, first, last) == 0 && rename(fresh, result) == 0;
        if (!made) close(open(result, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    close(lock);
    return made;
}

static bool write_names(const struct command* command, const char* path) {
    FILE* file = fopen(path, "w");
    if (!file) return false;
    for (int i = 0; i < command->names_length; ++i) {
        const char* equals = strchr(command->names[i], '=');
        if (equals)
            fprintf(file, "#define %.*s %s\n", (int)(equals - command->names[i]), command->names[i],
                    equals + 1);
    }
    return fclose(file) == 0;
}

static bool write_dependencies(const struct command* command) {
    if (!command->dependencies) return true;
    FILE* file = fopen(command->dependencies, "w");
    if (!file) return false;
    fprintf(file, "%s: %s\n", command->object, command->source);
    return fclose(file) == 0;
}

static bool wants_net(const char* source) {
    return starts_with(source, "net/") || starts_with(source, "drivers/net/") ||
           starts_with(source, "kernel/bpf/");
}

static bool compile(const struct command* command) {
    char here[4096];
    const ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (length == -1) return false;
    here[length] = '\0';
    const char* base = text("%s/precompiled/%s", dirname(here), wants_net(command->source) ? "net" : "core");
    // There is no such header, so that one which cannot be used is an error.
    char* set = text("%s-%" PRIx64 ".h", base, hash_of_flags(command));
    char *result = text("%s.gch", set), *names = text("%s.names.h", command->object);
    if (access(result, R_OK) != 0 &&
        !(is_common(text("%s.count", set)) && precompile(command, text("%s.h", base), result))) {
        return false;
    }
    char* first[] = {"-include", set, "-include", names, NULL};
    char* last[] = {"-c", "-o", command->object, command->source, NULL};
    return write_names(command, names) && gcc(command, first, last) == 0 && write_dependencies(command);
}

int main(int count, char** arguments) {
    if (count < max_arguments / 2) {
        const struct command command = parse(count, arguments);
        if (command.kernel && command.compiles && command.source && command.object &&
            command.preambles == 3 && order_does_not_matter(command.source) && compile(&command)) {
            return 0;
        }
    }
    arguments[0] = "gcc";
    execvp(arguments[0], arguments);
    return 127;
}
