package queuefs

// reloadInfo takes in what other hands changed in cutie-info.txt. What cannot
// change while the home is open is told.
func (s *Service) reloadInfo() {
	now, changed, err := stampOf(s.home, infoName)
	if err == nil && !s.infoWatch.changed(now) {
		return
	}
	var data []byte
	if err == nil {
		data, err = s.home.ReadFile(infoName, nil, 1<<20)
	}
	var info ServiceInfo
	if err == nil {
		if info, err = parseServiceInfo(data); err == nil {
			err = info.check()
		}
	}
	if transient(err) {
		return
	}
	s.infoWatch.read = now
	if err != nil {
		s.report(Problem{Path: infoName, Text: err.Error() + "; the properties stay as they were"})
		return
	}
	s.mu.Lock()
	was, base := s.info, s.infoBase
	s.info.take(&info)
	s.info.Modified = changed
	s.infoBase = info.BaseURI
	s.mu.Unlock()
	if info.BaseURI != base || info.Identifier != was.Identifier || info.Scheme != was.Scheme {
		s.report(Problem{Path: infoName, Text: "changed in baseURI, identifier or serviceScheme, which hold when the home is opened again"})
	}
}

// take takes over the properties that may change while the home is open.
func (info *ServiceInfo) take(n *ServiceInfo) {
	info.Name, info.Description, info.SupportURI, info.DefaultCatalog = n.Name, n.Description, n.SupportURI, n.DefaultCatalog
	info.TombstoneAge = n.TombstoneAge
}
