package home

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// maxURI is how many octets a URI in a property may have.
const maxURI = 2000

// checkURI refuses all but the empty string and absolute http or https URIs.
// Property files are public, so secrets are refused too.
func checkURI(what, uri string) error {
	if uri == "" {
		return nil
	}
	u, err := url.Parse(uri)
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("%s: %w: more than %d octets", what, job.ErrTooBig, maxURI)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || job.CleanLabel(uri) != uri:
		return fmt.Errorf("%w: %s %.80q is not an absolute http or https URI", job.ErrBadName, what, uri)
	case u.User != nil:
		return fmt.Errorf("%w: %s names a user, and properties are public", job.ErrBadName, what)
	case u.Fragment != "":
		return fmt.Errorf("%w: %s %.80q has a fragment", job.ErrBadName, what, uri)
	}
	return nil
}

// cleanTexts cleans the texts of a property file, and refuses long ones.
func cleanTexts(whose string, texts ...*string) error {
	for _, v := range texts {
		if len(*v) > 4*job.MaxLabel {
			return fmt.Errorf("%s property: %w", whose, job.ErrTooBig)
		}
		*v = job.CleanLabel(*v)
	}
	return nil
}

// FormatDigests returns the property digests of a queue, such as "SHA-256 MD5";
// it is "" for no digests but SHA-256.
func FormatDigests(s digest.Set) string {
	sha := digest.SetOf(digest.SHA256)
	if s &^= sha; s == 0 {
		return ""
	}
	return sha.String() + " " + s.String()
}

// ParseDigests reads names of digests, such as "SHA-256 MD5". The result leaves
// out SHA-256, which is always computed.
func ParseDigests(names string) (digest.Set, error) {
	s, err := digest.ParseSet(names)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", job.ErrBadName, err)
	}
	return s &^ digest.SetOf(digest.SHA256), nil
}

// NoDumps says that no set of resources has dumps.
const NoDumps = "none"

// ParseDumps reads the sets of resources with dumps: "pending", "replica", both, or
// [NoDumps]. The empty text stays.
func ParseDumps(names string) (string, error) {
	var sets []string
	for _, set := range strings.FieldsFunc(names, func(c rune) bool { return c == ' ' || c == ',' }) {
		if sets = append(sets, set); set != "pending" && set != "replica" && set != NoDumps {
			return "", fmt.Errorf("%w: dumps is %.40q, neither pending nor replica nor none", job.ErrBadName, names)
		}
	}
	slices.Sort(sets)
	if sets = slices.Compact(sets); len(sets) > 1 && sets[0] == NoDumps {
		return "", fmt.Errorf("%w: dumps is %.40q, and none excludes others", job.ErrBadName, names)
	}
	return strings.Join(sets, " "), nil
}
