package wellknown

import "strings"

// RobotsLine returns the line of a robots.txt for a Resource List or another
// Sitemap, with its line end. The URL must be absolute.
func RobotsLine(sitemap string) string { return "Sitemap: " + sitemap + "\n" }

// RobotsSitemaps returns the URLs in the Sitemap lines of a robots.txt, in
// their order. Some of them may be ordinary Sitemaps.
func RobotsSitemaps(robots string) []string {
	var urls []string
	robots = strings.TrimPrefix(robots, "\ufeff")
	for line := range strings.FieldsFuncSeq(robots, func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if strings.EqualFold(strings.TrimSpace(field), "sitemap") && value != "" {
			urls = append(urls, value)
		}
	}
	return urls
}

// Robots returns a robots.txt with Resource Lists and without restrictions, as
// many as the usual limit of 500 KiB takes (RFC 9309, 2.5).
func Robots(sitemaps []string) string {
	const limit = 500 << 10
	var b strings.Builder
	b.WriteString("User-agent: *\nDisallow:\n\n")
	for _, s := range sitemaps {
		line := RobotsLine(s)
		if b.Len()+len(line) > limit {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
