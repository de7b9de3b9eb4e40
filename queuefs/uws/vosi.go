package uws

import (
	"encoding/xml"
	"net/http"
)

// vosi answers with the capabilities of a queue as a service, or whether it is
// available (IVOA Support Interfaces 1.1, 2 and 4).
func (h *Handler) vosi(w http.ResponseWriter, r *request) error {
	d := &document{}
	d.buf.WriteString(xml.Header)
	if r.PathValue("part") == "availability" {
		up, note := "true", ""
		switch info := r.q.Info(); {
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
	for _, c := range []struct{ standard, where, use string }{
		{"ivo://ivoa.net/std/VOSI#capabilities", "capabilities", "full"},
		{"ivo://ivoa.net/std/VOSI#availability", "availability", "full"},
		{standard, "async", "base"},
	} {
		d.buf.WriteString("<capability")
		d.attr("standardID", c.standard)
		d.buf.WriteString(`><interface xsi:type="vs:ParamHTTP" role="std"><accessURL`)
		d.attr("use", c.use)
		d.buf.WriteString(">")
		d.escape(r.ref(c.where))
		d.buf.WriteString("</accessURL></interface></capability>\n")
	}
	d.buf.WriteString("</vosi:capabilities>\n")
	sendXML(w, d)
	return nil
}
