package rest

import (
	"bytes"
	"context"
	"mime"
	"mime/multipart"
	"net/http"

	"cutie/queuefs/anvl"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// properties reads settings of a queue: names and values as in the state of a
// queue, from the query and from a body in the form of ANVL, JSON or an HTML
// form.
func (h *Handler) properties(w http.ResponseWriter, r *request) (anvl.Record, error) {
	contentType, err := r.contentType()
	if err != nil {
		return nil, err
	}
	data, err := h.small(w, r)
	if err != nil {
		return nil, err
	}
	rec, err := readProperties(r.Context(), contentType, data)
	if err != nil {
		return nil, err
	}
	for name, values := range r.query {
		if name == "t" || name == "v" || name == "D" {
			continue
		}
		for _, v := range values {
			rec.Add(name, v)
		}
	}
	seen := map[string]bool{}
	for _, p := range rec {
		if seen[p.Name] {
			return nil, badRequest("%.40q is repeated", p.Name)
		}
		seen[p.Name] = true
	}
	return rec, nil
}

// maxProperties is how many properties a form of parts may have.
const maxProperties = 1000

// readProperties reads the names and values of a body.
func readProperties(ctx context.Context, contentType string, data []byte) (anvl.Record, error) {
	if len(data) == 0 {
		return nil, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, badRequest("Content-Type: %v", err)
	}
	switch media {
	case "application/x-www-form-urlencoded":
		values, err := web.ParseForm(ctx, data)
		if err != nil {
			return nil, err
		}
		var rec anvl.Record
		for name, all := range values {
			for _, v := range all {
				rec.Add(name, v)
			}
		}
		return rec, nil
	case "multipart/form-data":
		var rec anvl.Record
		err := eachPart(ctx, bytes.NewReader(data), params["boundary"], maxProperties, func(p *multipart.Part) error {
			text, err := web.ReadAll(ctx, p)
			rec.Add(p.FormName(), string(text))
			return err
		})
		return rec, err
	}
	form, _ := state.FormOf(media)
	switch form {
	case state.ANVL:
		rec, err := anvl.ParseRecord(data)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		return rec, nil
	case state.JSON:
		return propertiesOfJSON(data)
	}
	return nil, unsupportedBody(media)
}
