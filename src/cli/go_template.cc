#include "cli/go_template.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/go_template_functions.h"

namespace boxlite::cli {

namespace {

Error syntax(std::string_view message) {
    return base::make_error(ErrorCode::kInvalidArgument, "invalid --format template: {}", message);
}

// An operand or a call: `.A.B`, "text", 7, true, name args…, (pipeline).
struct Expression {
    enum class Kind { kField, kLiteral, kCall } kind = Kind::kLiteral;
    std::vector<std::string> path;  // kField
    Value literal;                  // kLiteral
    std::string function;           // kCall
    std::vector<Expression> args;   // kCall
};

struct Token {
    enum class Kind { kWord, kField, kString, kPipe, kOpen, kClose } kind;
    std::string text;
};

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+';
}

std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        const char c = text[++i];
        out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    return out;
}

// Only \t and \n: in a template's text every other backslash is the user's own.
std::string unescape_text(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 't' || text[i + 1] == 'n'))
            out += text[++i] == 't' ? '\t' : '\n';
        else
            out += text[i];
    }
    return out;
}

Result<std::vector<Token>> tokenize(std::string_view text) {
    std::vector<Token> tokens;
    for (size_t i = 0; i < text.size();) {
        const char c = text[i];
        if (c == ' ' || c == '\t' || c == '\n') {
            ++i;
        } else if (c == '|' || c == '(' || c == ')') {
            tokens.push_back({c == '|'   ? Token::Kind::kPipe
                              : c == '(' ? Token::Kind::kOpen
                                         : Token::Kind::kClose,
                              {}});
            ++i;
        } else if (c == '"' || c == '`') {
            size_t end = i + 1;
            while (end < text.size() && text[end] != c) end += text[end] == '\\' && c == '"' ? 2 : 1;
            if (end >= text.size()) return syntax(fmt::format("a string without an end in {{{{{}}}}}", text));
            const std::string_view inner = text.substr(i + 1, end - i - 1);
            tokens.push_back({Token::Kind::kString, c == '"' ? unescape(inner) : std::string(inner)});
            i = end + 1;
        } else if (c == '.' || c == '$' || is_word(c)) {
            size_t end = i + 1;
            while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
            tokens.push_back({c == '.' || c == '$' ? Token::Kind::kField : Token::Kind::kWord,
                              std::string(text.substr(i, end - i))});
            i = end;
        } else {
            return syntax(fmt::format("unexpected '{}' in {{{{{}}}}}", c, text));
        }
    }
    return tokens;
}

class ExpressionParser {
  public:
    explicit ExpressionParser(const std::vector<Token>& tokens, size_t start)
        : tokens_(tokens), next_(start) {}

    Result<Expression> parse() {
        Expression expression = TRY(pipeline());
        if (next_ < tokens_.size()) return syntax("unexpected ')'");
        return expression;
    }

  private:
    Result<Expression> pipeline() {
        Expression left = TRY(command());
        while (next_ < tokens_.size() && tokens_[next_].kind == Token::Kind::kPipe) {
            ++next_;
            Expression right = TRY(command());
            if (right.kind != Expression::Kind::kCall) return syntax("a function is needed after '|'");
            right.args.push_back(std::move(left));
            left = std::move(right);
        }
        return left;
    }

    bool at_operand() const {
        return next_ < tokens_.size() && tokens_[next_].kind != Token::Kind::kPipe &&
               tokens_[next_].kind != Token::Kind::kClose;
    }

    Result<Expression> command() {
        if (!at_operand()) return syntax("something is missing");
        Expression first = TRY(operand());
        if (first.kind == Expression::Kind::kCall && first.args.empty() && !parenthesized_)
            while (at_operand()) {
                Expression argument = TRY(operand());
                first.args.push_back(std::move(argument));
            }
        if (at_operand()) return syntax("only a function takes arguments");
        return first;
    }

    Result<Expression> operand() {
        const Token& token = tokens_[next_++];
        Expression expression;
        parenthesized_ = false;
        switch (token.kind) {
            case Token::Kind::kString:
                expression.literal = token.text;
                return expression;
            case Token::Kind::kField:
                return field(token.text);
            case Token::Kind::kOpen: {
                expression = TRY(pipeline());
                if (next_ == tokens_.size() || tokens_[next_].kind != Token::Kind::kClose)
                    return syntax("missing ')'");
                ++next_;
                parenthesized_ = true;
                return expression;
            }
            case Token::Kind::kWord:
                return word(token.text);
            case Token::Kind::kPipe:
            case Token::Kind::kClose:
                break;
        }
        return syntax("something is missing");
    }

    static Result<Expression> field(const std::string& text) {
        Expression expression;
        expression.kind = Expression::Kind::kField;
        size_t start = 1;
        while (start < text.size()) {
            const size_t dot = text.find('.', start);
            const std::string part = text.substr(start, dot - start);
            if (part.empty() && !(start == 1 && text[0] == '$'))
                return syntax(fmt::format("bad field '{}'", text));
            if (!part.empty()) expression.path.push_back(part);
            start = dot == std::string::npos ? text.size() : dot + 1;
        }
        return expression;
    }

    static Result<Expression> word(const std::string& text) {
        Expression expression;
        int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc() && end == text.data() + text.size()) {
            if (number >= 0)
                expression.literal = static_cast<uint64_t>(number);
            else
                expression.literal = number;
        } else if (text == "true" || text == "false") {
            expression.literal = text == "true";
        } else if (text == "nil") {
            expression.literal = nullptr;
        } else if (is_template_function(text)) {
            expression.kind = Expression::Kind::kCall;
            expression.function = text;
        } else {
            return syntax(fmt::format("function \"{}\" not defined", text));
        }
        return expression;
    }

    const std::vector<Token>& tokens_;
    size_t next_;
    bool parenthesized_ = false;  // the last operand was: its call is complete
};

Result<Value> field_of(const Value& dot, const std::vector<std::string>& path) {
    const Value* at = &dot;
    for (const std::string& name : path) {
        if (!at->is_object())
            return syntax(fmt::format("there is no field '{}' in {}", name,
                                      at->is_null() ? "nothing" : at->type_name()));
        auto found = at->find(name);
        const auto same = [&name](const std::string& key) {
            return std::equal(
                key.begin(), key.end(), name.begin(), name.end(),
                [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
        };
        for (auto member = at->begin(); found == at->end() && member != at->end(); ++member)
            if (same(member.key())) found = member;
        if (found == at->end()) return syntax(fmt::format("there is no field '{}'", name));
        at = &*found;
    }
    return *at;
}

Result<Value> evaluate(const Expression& expression, const Value& dot) {
    switch (expression.kind) {
        case Expression::Kind::kLiteral:
            return expression.literal;
        case Expression::Kind::kField:
            return field_of(dot, expression.path);
        case Expression::Kind::kCall:
            break;
    }
    std::vector<Value> args;
    for (const Expression& argument : expression.args) {
        Value value = TRY(evaluate(argument, dot));
        args.push_back(std::move(value));
    }
    return call_template_function(expression.function, args);
}

}  // namespace

struct GoTemplate::Node {
    enum class Kind { kText, kPrint, kIf, kRange, kWith } kind = Kind::kText;
    std::string text;
    Expression expression;
    std::vector<std::unique_ptr<Node>> body;
    std::vector<std::unique_ptr<Node>> otherwise;
};

namespace {

using Node = GoTemplate::Node;
using Nodes = std::vector<std::unique_ptr<Node>>;

// One {{…}} or the text between two.
struct Piece {
    bool action = false;
    std::string text;
};

std::string_view trim_left(std::string_view text) {
    const size_t start = text.find_first_not_of(" \t\r\n");
    return start == std::string_view::npos ? std::string_view() : text.substr(start);
}
std::string_view trim_right(std::string_view text) {
    const size_t end = text.find_last_not_of(" \t\r\n");
    return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

Result<std::vector<Piece>> split(std::string_view text) {
    std::vector<Piece> pieces;
    bool trim_next = false;
    for (;;) {
        const size_t open = text.find("{{");
        std::string_view plain = text.substr(0, open);
        if (trim_next) plain = trim_left(plain);
        const bool trims_before = open != std::string_view::npos && text.substr(open).starts_with("{{- ");
        if (trims_before) plain = trim_right(plain);
        if (!plain.empty()) pieces.push_back({false, unescape_text(plain)});
        if (open == std::string_view::npos) return pieces;
        const size_t close = text.find("}}", open);
        if (close == std::string_view::npos) return syntax("'{{' without '}}'");
        std::string_view action = text.substr(open + 2, close - open - 2);
        if (trims_before) action.remove_prefix(1);
        trim_next = action.ends_with(" -");
        if (trim_next) action.remove_suffix(1);
        text.remove_prefix(close + 2);
        action = trim_left(trim_right(action));
        if (!action.starts_with("/*")) pieces.push_back({true, std::string(action)});
    }
}

class TemplateParser {
  public:
    explicit TemplateParser(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

    Result<Nodes> parse() {
        Nodes nodes;
        std::string stopper = TRY(block(nodes));
        if (!stopper.empty()) return syntax(fmt::format("unexpected {{{{{}}}}}", stopper));
        return nodes;
    }

  private:
    // Reads nodes until {{end}}, {{else…}} or the end of the text, and returns which ("" for the text's end).
    Result<std::string> block(Nodes& nodes) {
        while (next_ < pieces_.size()) {
            Piece& piece = pieces_[next_++];
            auto node = std::make_unique<Node>();
            if (!piece.action) {
                node->text = std::move(piece.text);
                nodes.push_back(std::move(node));
                continue;
            }
            if (piece.text == "end" || piece.text == "else" || piece.text.starts_with("else "))
                return piece.text;
            const std::vector<Token> tokens = TRY(tokenize(piece.text));
            if (tokens.empty()) return syntax("empty {{}}");
            const std::string head = tokens[0].kind == Token::Kind::kWord ? tokens[0].text : "";
            const bool compound = head == "if" || head == "range" || head == "with";
            node->kind = head == "if"      ? Node::Kind::kIf
                         : head == "range" ? Node::Kind::kRange
                         : head == "with"  ? Node::Kind::kWith
                                           : Node::Kind::kPrint;
            node->expression = TRY(ExpressionParser(tokens, compound ? 1 : 0).parse());
            if (compound) TRY(branches(*node, head));
            nodes.push_back(std::move(node));
        }
        return std::string();
    }

    Result<void> branches(Node& node, const std::string& head) {
        std::string stopper = TRY(block(node.body));
        if (stopper.starts_with("else ")) {
            // {{else if x}} is {{else}}{{if x}}…{{end}} with one {{end}} for both.
            pieces_[--next_].text = stopper.substr(5);
            const std::vector<Token> tokens = TRY(tokenize(pieces_[next_++].text));
            if (tokens.empty() || tokens[0].text != "if")
                return syntax(fmt::format("unexpected {{{{{}}}}}", stopper));
            auto nested = std::make_unique<Node>();
            nested->kind = Node::Kind::kIf;
            nested->expression = TRY(ExpressionParser(tokens, 1).parse());
            TRY(branches(*nested, "if"));
            node.otherwise.push_back(std::move(nested));
            return {};
        }
        if (stopper == "else") stopper = TRY(block(node.otherwise));
        if (stopper != "end") return syntax(fmt::format("{{{{{}}}}} without {{{{end}}}}", head));
        return {};
    }

    std::vector<Piece> pieces_;
    size_t next_ = 0;
};

Result<void> run(const Nodes& nodes, const Value& dot, std::string& out);

Result<void> run_one(const Node& node, const Value& dot, std::string& out) {
    if (node.kind == Node::Kind::kText) {
        out += node.text;
        return {};
    }
    const Value value = TRY(evaluate(node.expression, dot));
    switch (node.kind) {
        case Node::Kind::kPrint:
            out += go_print(value);
            return {};
        case Node::Kind::kIf:
            return run(is_truthy(value) ? node.body : node.otherwise, dot, out);
        case Node::Kind::kWith:
            return is_truthy(value) ? run(node.body, value, out) : run(node.otherwise, dot, out);
        case Node::Kind::kRange:
            if (!is_truthy(value)) return run(node.otherwise, dot, out);
            if (!value.is_structured()) return syntax("range needs a list or a map");
            for (const Value& item : value) TRY(run(node.body, item, out));
            return {};
        case Node::Kind::kText:
            break;
    }
    return {};
}

Result<void> run(const Nodes& nodes, const Value& dot, std::string& out) {
    for (const auto& node : nodes) TRY(run_one(*node, dot, out));
    return {};
}

void collect_fields(const Expression& expression, std::vector<std::string>& names) {
    if (expression.kind == Expression::Kind::kField && !expression.path.empty())
        names.push_back(expression.path.back());
    for (const Expression& argument : expression.args) collect_fields(argument, names);
}

}  // namespace

GoTemplate::GoTemplate(std::unique_ptr<Node> root) : root_(std::move(root)) {}
GoTemplate::GoTemplate(GoTemplate&&) noexcept = default;
GoTemplate& GoTemplate::operator=(GoTemplate&&) noexcept = default;
GoTemplate::~GoTemplate() = default;

Result<GoTemplate> GoTemplate::parse(std::string_view text) {
    auto root = std::make_unique<Node>();
    root->body = TRY(TemplateParser(TRY(split(text))).parse());
    return GoTemplate(std::move(root));
}

Result<std::string> GoTemplate::execute(const Value& value) const {
    std::string out;
    TRY(run(root_->body, value, out));
    return out;
}

std::vector<std::string> GoTemplate::field_names() const {
    std::vector<std::string> names;
    for (const auto& node : root_->body) collect_fields(node->expression, names);
    return names;
}

std::string go_print(const Value& value) {
    if (value.is_null()) return "<nil>";
    if (value.is_string()) return value.get<std::string>();
    std::string text;
    if (value.is_array()) {
        for (const Value& item : value) text += (text.empty() ? "" : " ") + go_print(item);
        return "[" + text + "]";
    }
    if (value.is_object()) {
        for (const auto& [key, item] : value.items())
            text += (text.empty() ? "" : " ") + key + ":" + go_print(item);
        return "map[" + text + "]";
    }
    return value.dump();
}

}  // namespace boxlite::cli
