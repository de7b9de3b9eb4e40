package main

import (
	"net/url"
	"strings"
)

// cleanBase checks a base URI and ends it with the slash that paths are
// appended to.
func cleanBase(uri string) (string, error) {
	const hint = "one looks like http://127.0.0.1:8080/"
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", withHint(usagef("base URI %.60q: %v", uri, err), hint)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", withHint(usagef("base URI %.60q is not an absolute http URI", uri), hint)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", usagef("base URI %.60q: only scheme, host and path have a meaning", uri)
	}
	return strings.TrimSuffix(u.String(), "/") + "/", nil
}
