package sitemap

// A plain Sitemap is one of sitemaps.org without terms of ResourceSync, for search
// engines that take these for errors.

// AppendPlainHead is [AppendHead] for a plain Sitemap.
func AppendPlainHead(dst []byte, root Root) []byte {
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(dst, rootNames[root]...)
	return append(dst, ` xmlns="`+Namespace+"\">\n"...)
}

// AppendPlainEntry is [AppendEntry] for a plain Sitemap: loc and lastmod.
func AppendPlainEntry(dst []byte, root Root, e *Entry) []byte {
	return AppendEntry(dst, root, &Entry{Loc: e.Loc, LastMod: e.LastMod, Length: -1})
}
