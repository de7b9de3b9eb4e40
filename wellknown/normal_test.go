package wellknown_test

import (
	"testing"

	"cutie/wellknown"
)

func TestNormalURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"http://s.org":                         "http://s.org/",
		"HTTP://S.Org:80/A?B":                  "http://s.org/A?B",
		"https://s.org:443?q":                  "https://s.org/?q",
		"https://s.org:80/":                    "https://s.org:80/",
		"http://s.org:/a":                      "http://s.org/a",
		"http://s.org:8080#f":                  "http://s.org:8080/#f",
		"http://Bücher.example/ü?ü":            "http://xn--bcher-kva.example/%C3%BC?%C3%BC",
		"http://b%C3%BCcher.example/":          "http://xn--bcher-kva.example/",
		"http://[2001:DB8::1]:80/":             "http://[2001:db8::1]/",
		"http://s.org/%7euser/%2f%c3%bc/a%2Fb": "http://s.org/~user/%2F%C3%BC/a%2Fb",
		"http://s.org/x/../a/./b/..":           "http://s.org/a/",
		"http://s.org/../a/%2e%2E/b":           "http://s.org/b",
		"http://s.org//a//b/":                  "http://s.org//a//b/",
		"http://s.org/a b^c|d[1]?x=%zz&y=a b":  "http://s.org/a%20b%5Ec%7Cd[1]?x=%25zz&y=a%20b",
		"http://U:p@S.org/":                    "http://U:p@s.org/",
		"http://s.org/a?b=/../c":               "http://s.org/a?b=/../c",
		"http://my_host/":                      "http://my_host/",
		"urn:A:B":                              "urn:A:B",
		"ftp://S/":                             "ftp://S/",
	} {
		got, err := wellknown.Normal(uri)
		if got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", uri, got, err, want)
			continue
		}
		if again, err := wellknown.Normal(got); again != got || err != nil {
			t.Errorf("%s: again %q, %v", got, again, err)
		}
	}
	for _, uri := range []string{"http://s.org/100%", "http://a\x00/", "http://s.org:x/"} {
		if got, err := wellknown.Normal(uri); err == nil {
			t.Errorf("%q: got %q", uri, got)
		}
	}
}
