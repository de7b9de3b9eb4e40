package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/mirror"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
)

// A textValue is the value of an option that a function makes of what was typed.
type textValue[T any] struct {
	to    *T
	typed string
	parse func(string) (T, error)
}

// parsed is a value that must be given.
func parsed[T any](to *T, parse func(string) (T, error)) *textValue[T] {
	return &textValue[T]{to: to, parse: parse}
}

// optional is a value that is its zero value if the text is empty.
func optional[T any](to *T, parse func(string) (T, error)) *textValue[T] {
	return parsed(to, func(s string) (zero T, err error) {
		if s == "" {
			return zero, nil
		}
		return parse(s)
	})
}

func (v *textValue[T]) Set(s string) error {
	value, err := v.parse(s)
	if err == nil {
		*v.to, v.typed = value, s
	}
	return err
}

func (v *textValue[T]) String() string { return v.typed }
func (v *textValue[T]) Type() string   { return "text" }

// A listValue is an option that may be repeated, and has commas in the environment.
type listValue[T any] struct {
	to    *[]T
	typed []string
	parse func(string) (T, error)
}

func list[T any](to *[]T, parse func(string) (T, error)) *listValue[T] {
	return &listValue[T]{to: to, parse: parse}
}

func (v *listValue[T]) Append(s string) error {
	value, err := v.parse(s)
	if err == nil {
		*v.to, v.typed = append(*v.to, value), append(v.typed, s)
	}
	return err
}

func (v *listValue[T]) Replace(all []string) error {
	*v.to, v.typed = nil, nil
	for _, s := range all {
		if err := v.Append(s); err != nil {
			return err
		}
	}
	return nil
}

func (v *listValue[T]) Set(s string) error {
	if s == "" {
		return nil
	}
	all, err := csv.NewReader(strings.NewReader(s)).Read()
	if err != nil {
		return err
	}
	return v.Replace(slices.Concat(v.typed, all))
}

func (v *listValue[T]) GetSlice() []string { return v.typed }
func (v *listValue[T]) Type() string       { return "text" }

// String returns the texts as Set reads them.
func (v *listValue[T]) String() string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(v.typed)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func asIs(s string) (string, error) { return s, nil }

// A share is a size, or a percentage of the disk.
type share struct {
	bytes   octets
	percent int // 0: bytes says it
}

func parseShare(text string) (s share, err error) {
	if number, is := strings.CutSuffix(text, "%"); is {
		s.percent, err = strconv.Atoi(number)
		if err != nil || s.percent < 1 || s.percent > 100 {
			err = fmt.Errorf("%.40q is no percentage from 1%% to 100%%", text)
		}
		return s, err
	}
	return s, s.bytes.Set(text)
}

// on returns the bytes on the disk of a directory.
func (s share) on(dir string) (int64, error) {
	if s.percent == 0 {
		return int64(s.bytes), nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, fmt.Errorf("size of the disk of %s: %w", dir, err)
	}
	return int64(disk.Blocks) * disk.Bsize / 100 * int64(s.percent), nil
}

func parseAllowed(pattern string) (string, error) {
	_, err := outbound.NewAddresses([]string{pattern})
	return pattern, err
}

func parseDialect(text string) (*sitemap.Dialect, error) {
	d, err := sitemap.ParseDialect(text)
	if err != nil || d > sitemap.V09 {
		return nil, fmt.Errorf("%.20q is none of 1.1, 1.0 and 0.9", text)
	}
	return &d, nil
}

func parseDumps(text string) (string, error) {
	if _, err := queuefs.ParseDumps(text); err != nil {
		return "", fmt.Errorf("%.40q is neither pending, replica, pending,replica nor none", text)
	}
	return text, nil
}

func parseHub(text string) (string, error) {
	if u, err := webURL(text); err != nil || u.User != nil || u.Fragment != "" {
		return "", fmt.Errorf("%.80q is not an absolute http or https URL without user and fragment", text)
	}
	return text, nil
}

func parseCollector(text string) (string, error) {
	if u, err := webURL(text); err != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%.80q is not an absolute http or https URL", text)
	}
	return strings.TrimSuffix(text, "/"), nil
}

// parseMirror reads the URL of a daemon to be mirrored.
func (s *settings) parseMirror(text string) (mirror.Source, error) {
	if _, err := webURL(text); err != nil {
		return mirror.Source{}, fmt.Errorf("%.200q is no URL of a daemon, such as http://host:8080/", text)
	}
	return mirror.Source{URL: text, Header: s.mirrorHeader}, nil
}

// mirrorHeader has the credentials for the originals of mirrors.
func (s *settings) mirrorHeader() (http.Header, error) {
	token, err := secretOf(s.mirrorToken)
	if err != nil {
		return nil, fmt.Errorf("--mirror-token: %w", err)
	}
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h, nil
}

func webURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		err = errors.New("not an absolute http or https URL")
	}
	return u, err
}

func parseLevel(text string) (zerolog.Level, error) {
	level, err := zerolog.ParseLevel(strings.ToLower(text))
	if err != nil || text == "" {
		return level, fmt.Errorf("%.40q is none of debug, info, warn, error, disabled", text)
	}
	return level, nil
}

func parseLogFormat(text string) (string, error) {
	if text != "json" && text != "console" {
		return "", fmt.Errorf("%.40q is neither json nor console", text)
	}
	return text, nil
}
