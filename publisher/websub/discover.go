package websub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"cutie/publisher/push"
	"cutie/sitemap"
	"cutie/wellknown"
)

// A Discovery is the topic of a resource and its hubs (4). All URLs are absolute.
type Discovery struct {
	Topic string   // the canonical URL
	Hubs  []string // at least one, in the order of the links
}

// ErrNoHub is the error of a resource without a hub or a topic.
var ErrNoHub = errors.New("names no hub or no topic")

// maxHead is how many bytes of a document are read for links.
const maxHead = 1 << 20

// Discover asks a resource for its topic and hubs, by Link headers or by the
// links at the head of a ResourceSync document. Without any the error is an
// [ErrNoHub].
func Discover(ctx context.Context, client push.Doer, resource string) (Discovery, error) {
	d, err := discover(ctx, client, resource)
	if err != nil {
		return Discovery{}, fmt.Errorf("discover %s: %w", resource, err)
	}
	return d, nil
}

func discover(ctx context.Context, client push.Doer, resource string) (d Discovery, err error) {
	if _, err := parseURL(resource); err != nil {
		return d, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, resource, nil)
	if err != nil {
		return d, err
	}
	req.Header.Set("User-Agent", agent)
	resp, err := client.Do(req)
	if err != nil {
		return d, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return d, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	base := req.URL
	if resp.Request != nil {
		base = resp.Request.URL
	}
	if d, err = pick(base, wellknown.Links(resp.Header, RelHub), wellknown.Links(resp.Header, RelSelf)); err == nil {
		return d, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHead))
	if err != nil {
		return d, err
	}
	_, head, err := sitemap.NewReader(bytes.NewReader(text)).ReadHead()
	if err != nil {
		return d, ErrNoHub
	}
	links := map[string][]string{}
	for _, l := range head.Links {
		links[l.Rel] = append(links[l.Rel], l.Href)
	}
	return pick(base, links[RelHub], links[RelSelf])
}

// pick resolves the links. There must be one topic.
func pick(base *url.URL, hubs, topics []string) (d Discovery, err error) {
	if len(hubs) == 0 || len(topics) != 1 {
		return d, ErrNoHub
	}
	for _, ref := range append(topics, hubs...) {
		u, err := base.Parse(ref)
		if err != nil {
			return d, fmt.Errorf("link %.80q: %w", ref, err)
		}
		if _, err := parseURL(u.String()); err != nil {
			return d, fmt.Errorf("link %.80q: %w", ref, err)
		}
		d.Hubs = append(d.Hubs, u.String())
	}
	d.Topic, d.Hubs = d.Hubs[0], d.Hubs[1:]
	return d, nil
}
