#include "cli/completion.h"

#include "cli/command.h"

namespace boxlite::cli {

namespace {

std::string command_words() {
    std::string words;
    for (const Command& command : commands()) {
        words += std::string(command.name) + " ";
        for (const std::string_view alias : command.aliases) words += std::string(alias) + " ";
    }
    words.pop_back();
    return words;
}

std::string flag_words(std::span<const Flag> flags) {
    std::string words;
    for (const Flag& flag : flags) {
        words += fmt::format("--{} ", flag.name);
        if (flag.letter) words += fmt::format("-{} ", flag.letter);
    }
    return words;
}

std::string case_pattern(const Command& command, std::string_view separator) {
    std::string pattern(command.name);
    for (const std::string_view alias : command.aliases)
        pattern += std::string(separator) + std::string(alias);
    return pattern;
}

// What completes an operand, as a shell command that prints one candidate a line.
std::string_view candidates(const Command& command) {
    if (command.operand_kind == "box") return "boxlite list --all --format '{{.Name}}' 2>/dev/null";
    if (command.operand_kind == "image") return "boxlite images --format '{{.Reference}}' 2>/dev/null";
    return {};
}

std::string bash_script() {
    std::string cases;
    for (const Command& command : commands()) {
        const std::string_view source = candidates(command);
        cases += fmt::format("        {})\n            flags='{}'\n", case_pattern(command, "|"),
                             flag_words(command.flags) + flag_words(global_flags()));
        if (!source.empty()) cases += fmt::format("            operands=$({})\n", source);
        cases += "            ;;\n";
    }
    return fmt::format(R"bash(# bash completion for boxlite
_boxlite() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command= flags= operands= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
        --home | --config | --registry) ((i++)) ;;
        -*) ;;
        *)
            command=${{COMP_WORDS[i]}}
            break
            ;;
        esac
    done
    case $command in
        '')
            flags='{}'
            operands='{}'
            ;;
{}    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$operands" -- "$word"))
    fi
}}
complete -o default -F _boxlite boxlite
)bash",
                       flag_words(global_flags()), command_words(), cases);
}

std::string zsh_quoted(std::string_view text) {
    std::string quoted;
    for (const char c : text) {
        if (c == '\'')
            quoted += "'\\''";
        else if (c == '[' || c == ']' || c == ':')
            quoted += std::string("\\") + c;
        else
            quoted += c;
    }
    return quoted;
}

std::string zsh_flags(std::span<const Flag> flags) {
    std::string out;
    for (const Flag& flag : flags) {
        const std::string tail =
            fmt::format("[{}]{}", zsh_quoted(flag.help),
                        flag.value.empty() ? "" : fmt::format(":{}:_files", zsh_quoted(flag.value)));
        const std::string_view many = flag.repeats ? "*" : "";
        out += fmt::format(" '{}--{}{}'", many, flag.name, tail);
        if (flag.letter) out += fmt::format(" '{}-{}{}'", many, flag.letter, tail);
    }
    return out;
}

std::string zsh_script() {
    std::string described, cases;
    for (const Command& command : commands()) {
        described += fmt::format("        '{}:{}'\n", command.name, zsh_quoted(command.summary));
        const std::string_view source = candidates(command);
        const std::string operands =
            source.empty()
                ? (command.operand_kind == "file" ? std::string(" '*:file:_files'") : std::string())
                : fmt::format(" '*:{}:_boxlite_{}'", command.operand_kind, command.operand_kind);
        cases += fmt::format("        {})\n            _arguments{}{}{}\n            ;;\n",
                             case_pattern(command, "|"), zsh_flags(command.flags), zsh_flags(global_flags()),
                             operands);
    }
    return fmt::format(R"zsh(#compdef boxlite
# zsh completion for boxlite
_boxlite_box() {{
    compadd -- ${{(f)"$(boxlite list --all --format '{{{{.Name}}}}' 2>/dev/null)"}}
}}
_boxlite_image() {{
    compadd -- ${{(f)"$(boxlite images --format '{{{{.Reference}}}}' 2>/dev/null)"}}
}}
_boxlite() {{
    local -a commands=(
{}    )
    local context state state_descr line
    typeset -A opt_args
    _arguments -C{} '1:command:->command' '*::argument:->argument'
    case $state in
    command) _describe command commands ;;
    argument)
        case $words[1] in
{}        esac
        ;;
    esac
}}
compdef _boxlite boxlite
)zsh",
                       described, zsh_flags(global_flags()), cases);
}

std::string fish_quoted(std::string_view text) {
    std::string quoted;
    for (const char c : text) quoted += c == '\'' ? std::string("\\'") : std::string(1, c);
    return quoted;
}

std::string fish_flags(std::span<const Flag> flags, const std::string& condition) {
    std::string out;
    for (const Flag& flag : flags) {
        out += fmt::format("complete -c boxlite{} -l {}", condition, flag.name);
        if (flag.letter) out += fmt::format(" -s {}", flag.letter);
        if (!flag.value.empty()) out += " -r";
        out += fmt::format(" -d '{}'\n", fish_quoted(flag.help));
    }
    return out;
}

std::string fish_script() {
    std::string out = "# fish completion for boxlite\ncomplete -c boxlite -f\n";
    out += fish_flags(global_flags(), "");
    for (const Command& command : commands()) {
        out += fmt::format("complete -c boxlite -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                           fish_quoted(command.summary));
        const std::string condition =
            fmt::format(" -n '__fish_seen_subcommand_from {}'", case_pattern(command, " "));
        out += fish_flags(command.flags, condition);
        const std::string_view source = candidates(command);
        if (!source.empty()) out += fmt::format("complete -c boxlite{} -a \"({})\"\n", condition, source);
        if (command.operand_kind == "file") out += fmt::format("complete -c boxlite{} -F\n", condition);
    }
    return out;
}

}  // namespace

Result<std::string> completion_script(std::string_view shell) {
    if (shell == "bash") return bash_script();
    if (shell == "zsh") return zsh_script();
    if (shell == "fish") return fish_script();
    return base::make_error(ErrorCode::kInvalidArgument,
                            "no completion for '{}': bash, zsh and fish are known", shell);
}

}  // namespace boxlite::cli
