package statetest

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (p *turtle) iriRef() (string, error) {
	if !strings.HasPrefix(p.s, "<") {
		return "", p.unexpected("want <")
	}
	end := strings.IndexAny(p.s, "> \n")
	if end < 0 || p.s[end] != '>' {
		return "", p.unexpected("want an IRI")
	}
	ref, err := unescapeTurtle(p.skip(end + 1)[1:end], false)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(ref); p.base != nil && err == nil && !u.IsAbs() {
		u, err := p.base.Parse(ref)
		if err != nil {
			return "", fmt.Errorf("%.40q is no reference", ref)
		}
		ref = u.String()
	}
	return ref, nil
}

func (p *turtle) prefixedName() (string, error) {
	i := strings.IndexByte(p.s, ':')
	if i < 0 || prefixLength(p.s, isNameByte) != i {
		return "", p.unexpected("want a name")
	}
	ns, ok := p.prefixes[p.s[:i]]
	if !ok {
		return "", fmt.Errorf("prefix %.40q is not declared", p.s[:i])
	}
	p.skip(i + 1)
	var local []byte
	for p.s != "" {
		c := p.s[0]
		switch {
		case c == '\\' && len(p.s) > 1 && strings.IndexByte("_~.-!$&'()*+,;=/?#@%", p.s[1]) >= 0:
			local = append(local, p.s[1])
			p.skip(2)
			continue
		case c == ':', c == '%', isNameByte(c) && c != '.':
		case c == '.' && len(p.s) > 1 && (isNameByte(p.s[1]) || p.s[1] == ':' || p.s[1] == '%'):
			// A dot within a name; the last one ends the statement.
		default:
			return ns + string(local), nil
		}
		local = append(local, c)
		p.skip(1)
	}
	return ns + string(local), nil
}

func (p *turtle) number() (node, error) {
	n := prefixLength(p.s, func(c byte) bool {
		return c >= '0' && c <= '9' || strings.IndexByte("+-.eE", c) >= 0
	})
	for n > 0 && p.s[n-1] == '.' {
		n--
	}
	if _, err := strconv.ParseFloat(p.s[:n], 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return node{}, p.unexpected("want a number")
	}
	return node{literal, p.skip(n)}, nil
}

// quoted parses a literal in one or three quotes of either kind, with a
// language or a datatype after it.
func (p *turtle) quoted() (node, error) {
	quote := p.s[:1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(p.s, long) {
		quote = long
	}
	p.skip(len(quote))
	end := 0
	for {
		switch {
		case end >= len(p.s):
			return node{}, errors.New("literal without an end")
		case p.s[end] == '\\':
			end += 2
			continue
		case len(quote) == 1 && (p.s[end] == '\n' || p.s[end] == '\r'):
			return node{}, errors.New("line end within a literal")
		case !strings.HasPrefix(p.s[end:], quote):
			end++
			continue
		}
		break
	}
	text, err := unescapeTurtle(p.skip(end), true)
	if err != nil {
		return node{}, err
	}
	p.skip(len(quote))
	switch {
	case strings.HasPrefix(p.s, "^^"):
		p.skip(2)
		if datatype, err := p.node(false); err != nil {
			return node{}, err
		} else if datatype.kind != iri {
			return node{}, errors.New("datatype is no IRI")
		}
	case strings.HasPrefix(p.s, "@"):
		n := prefixLength(p.s[1:], func(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' || c == '-' })
		if n == 0 {
			return node{}, p.unexpected("want a language")
		}
		p.skip(1 + n)
	}
	return node{literal, text}, nil
}

// unescapeTurtle resolves \u and \U with four and eight hexadecimal digits, and
// in literals \n and its like.
func unescapeTurtle(s string, inLiteral bool) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	const codes, meant = `tbnrf"'\`, "\t\b\n\r\f\"'\\"
	text := make([]byte, 0, len(s))
	for s != "" {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			i = len(s)
		}
		text = append(text, s[:i]...)
		if s = s[i:]; s == "" {
			break
		}
		if len(s) < 2 {
			return "", errors.New("text ends in a backslash")
		}
		digits := 0
		switch s[1] {
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			i := strings.IndexByte(codes, s[1])
			if i < 0 || !inLiteral {
				return "", fmt.Errorf("unknown escape %.2q", s)
			}
			text = append(text, meant[i])
			s = s[2:]
			continue
		}
		if len(s) < 2+digits {
			return "", fmt.Errorf("unknown escape %.10q", s)
		}
		r, err := strconv.ParseUint(s[2:2+digits], 16, 32)
		if err != nil || r > utf8.MaxRune {
			return "", fmt.Errorf("unknown escape %.10q", s)
		}
		text = utf8.AppendRune(text, rune(r))
		s = s[2+digits:]
	}
	return string(text), nil
}

// prefixLength returns how many octets at the front of s are such.
func prefixLength(s string, such func(byte) bool) int {
	n := 0
	for n < len(s) && such(s[n]) {
		n++
	}
	return n
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isNameByte takes all octets outside of ASCII for letters; nearly all are.
func isNameByte(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c >= utf8.RuneSelf
}

func isBlankAt(s string, i int) bool {
	return i >= len(s) || strings.IndexByte(" \t\r\n<[(\"'#", s[i]) >= 0
}
