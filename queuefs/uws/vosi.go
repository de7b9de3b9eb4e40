package uws

import (
	"encoding/xml"
	"net/http"

	"cutie/queuefs"
)

// securityMethods are those of users: passwords and bearer tokens. Requests without
// a name are an interface of their own, without a method.
var securityMethods = []string{"ivo://ivoa.net/sso#BasicAA", "ivo://ivoa.net/sso#token"}

// vosi answers with the capabilities of a queue as a service, or whether it is
// available (IVOA Support Interfaces 1.1, 2 and 4), to everybody.
func (h *Handler) vosi(w http.ResponseWriter, r *request) error {
	d := &document{}
	d.buf.WriteString(xml.Header)
	if r.PathValue("part") == "availability" {
		up, note := "true", ""
		var info queuefs.QueueInfo
		if r.q != nil {
			info = r.q.Info()
		}
		switch {
		case h.svc.Err() != nil:
			up, note = "false", "storage failed"
		case info.Closed:
			up, note = "false", "the queue takes no jobs at present"
		case !info.Paused.IsZero():
			note = "jobs are taken, and none is started at present"
		}
		d.buf.WriteString(`<vosi:availability xmlns:vosi="http://www.ivoa.net/xml/VOSIAvailability/v1.0">` + "\n<vosi:available>" + up + "</vosi:available>\n")
		if note != "" {
			d.buf.WriteString("<vosi:note>" + note + "</vosi:note>\n")
		}
		d.buf.WriteString("</vosi:availability>\n")
		sendXML(w, d)
		return nil
	}
	d.buf.WriteString(`<vosi:capabilities xmlns:vosi="http://www.ivoa.net/xml/VOSICapabilities/v1.0" xmlns:vs="http://www.ivoa.net/xml/VODataService/v1.1" xmlns:xsi="` + nsXSI + `">` + "\n")
	standard := "ivo://ivoa.net/std/UWS#rest-1.1"
	if r.set.old {
		standard = "ivo://ivoa.net/std/UWS"
	}
	open := [][]string{nil}
	var ways [][]string
	security := h.o.Security(r.id)
	if security.Anonymous || !security.Users {
		ways = append(ways, nil)
	}
	if security.Users {
		ways = append(ways, securityMethods)
	}
	for _, c := range []struct {
		standard, where, use string
		ways                 [][]string
	}{
		{"ivo://ivoa.net/std/VOSI#capabilities", "capabilities", "full", open},
		{"ivo://ivoa.net/std/VOSI#availability", "availability", "full", open},
		{standard, "async", "base", ways},
	} {
		d.buf.WriteString("<capability")
		d.attr("standardID", c.standard)
		d.buf.WriteString(">")
		for _, methods := range c.ways {
			d.buf.WriteString(`<interface xsi:type="vs:ParamHTTP" role="std"><accessURL`)
			d.attr("use", c.use)
			d.buf.WriteString(">")
			d.escape(r.ref(c.where))
			d.buf.WriteString("</accessURL>")
			for _, m := range methods {
				d.buf.WriteString("<securityMethod")
				d.attr("standardID", m)
				d.buf.WriteString("/>")
			}
			d.buf.WriteString("</interface>")
		}
		d.buf.WriteString("</capability>\n")
	}
	d.buf.WriteString("</vosi:capabilities>\n")
	sendXML(w, d)
	return nil
}

// unknown answers a request about a queue that does not exist. A stranger gets the
// description of an ordinary queue: only this is open to strangers, and a 404 would say
// which queues there are.
func (h *Handler) unknown(w http.ResponseWriter, raw *http.Request) error {
	id, err := queuefs.CleanQueueID(raw.PathValue("queue"))
	if err != nil {
		return notFound("queue not found")
	}
	r := &request{Request: raw, base: h.base(raw), id: id}
	if r.caller = h.o.Caller(raw, id); !r.caller.Stranger {
		return notFound("queue not found")
	}
	w.Header().Set("Cache-Control", "no-cache")
	return h.vosi(w, r)
}
