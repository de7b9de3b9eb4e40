package rdm

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// catalogID is the Catalog-Service-ID of a queue.
func catalogID(base state.Base, queue string) string {
	u, err := url.Parse(string(base))
	if err != nil {
		u = &url.URL{}
	}
	return catalogIDOf(u.Scheme, u.Host, queue)
}

// catalogIDOf is x-catalog://host:port/name, or x-catalogs where the server is
// reached by https.
func catalogIDOf(scheme, host, name string) string {
	catalog, port := "x-catalog", ":80"
	if scheme == "https" {
		catalog, port = "x-catalogs", ":443"
	}
	if (&url.URL{Host: host}).Port() == "" {
		host = strings.TrimSuffix(host, ":") + port
	}
	return state.Base(catalog + "://" + host).Ref(name)
}

// catalogName returns the queue of a Catalog-Service-ID (Catalog Service IDs). Host and
// port are those of this server: of its base URI, or as the client has reached it.
func (x *exchange) catalogName(csid string) (string, error) {
	u, err := url.Parse(csid)
	if err != nil || !strings.EqualFold(u.Scheme, "x-catalog") && !strings.EqualFold(u.Scheme, "x-catalogs") || u.Host == "" ||
		len(u.Path) < 2 || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", badRequest("%s %.80q is not x-catalog://host:port/name", nameCatalog, csid)
	}
	name := strings.TrimPrefix(u.Path, "/")
	own := []string{x.r.Host}
	for _, base := range []state.Base{x.base, web.BaseOf(x.r, string(x.base))} {
		if b, err := url.Parse(string(base)); err == nil {
			own = append(own, b.Host)
		}
	}
	for _, host := range own {
		if sameHost(u.Host, host) {
			return name, nil
		}
	}
	return "", web.Errorf(http.StatusNotFound, "catalog not found: %.200s is of another server, the catalogs here are %s", strings.ToValidUTF8(csid, "\ufffd"), catalogID(x.base, "NAME"))
}

// sameHost compares hosts with their ports; one without a port has either of the usual
// ones.
func sameHost(a, b string) bool {
	ua, ub := url.URL{Host: a}, url.URL{Host: b}
	if !strings.EqualFold(ua.Hostname(), ub.Hostname()) {
		return false
	}
	usual := func(port string) bool { return port == "" || port == "80" || port == "443" }
	return ua.Port() == ub.Port() || ua.Port() == "" && usual(ub.Port()) || ub.Port() == "" && usual(ua.Port())
}

// open finds the catalog of the message, for a caller with the right. The default is the
// one in cutie-info.txt, or the first queue.
func (x *exchange) open(right web.Right) error {
	name := x.h.svc.Info().DefaultCatalog
	if x.csid == "" && name == "" {
		queues := x.h.svc.Queues()
		if len(queues) == 0 {
			return notFound("there is none")
		}
		x.catalog = queues[0]
		if err := x.allow(right, x.catalog.ID()); err != nil {
			return err
		}
		return x.catalog.Shut()
	}
	if x.csid != "" {
		var err error
		if name, err = x.catalogName(x.csid); err != nil {
			return err
		}
	}
	q, err := x.h.svc.Ask(name)
	if err != nil {
		// The names of queues are for those with the right to see all.
		if err := x.allow(right, ""); err != nil {
			return err
		}
		if errors.Is(err, queuefs.ErrNoQueue) || errors.Is(err, queuefs.ErrBadName) {
			return notFound(name)
		}
		return err
	}
	x.catalog = q
	return x.allow(right, q.ID())
}

func notFound(name string) error {
	return fmt.Errorf("%w", web.Errorf(404, "catalog not found: %.200s", name))
}

// may is allow for parts of an answer that can be left out.
func (x *exchange) may(right web.Right, queue string) bool {
	return x.h.o.Allow == nil || x.h.o.Allow(http.Header{}, x.r, right, queue) == nil
}

func (x *exchange) allow(right web.Right, queue string) error {
	if x.h.o.Allow == nil {
		return nil
	}
	return x.h.o.Allow(x.w.Header(), x.r, right, queue)
}

// readable returns the queues with the right to read for the caller: all, or the one that
// the message names.
func (x *exchange) readable() (list []*queuefs.Queue, err error) {
	if x.csid != "" {
		err := x.open(web.Read)
		return []*queuefs.Queue{x.catalog}, err
	}
	for _, q := range x.h.svc.Queues() {
		if x.may(web.Read, q.ID()) {
			list = append(list, q)
		}
	}
	return list, nil
}

// answered is the Catalog-Service-ID of the answer: the catalog's, or the one
// in the request.
func (x *exchange) answered() string {
	if x.catalog != nil {
		return catalogID(x.base, x.catalog.ID())
	}
	return x.csid
}
