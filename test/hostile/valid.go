// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// eventsPerWatch is the number of events after which ValidEvents closes a watch.
const eventsPerWatch = 2_000

// kinds has the kinds that informers watch on a provider, by resource.
var kinds = map[string]string{
	"configmaps": "ConfigMap", "events": "Event", "ingresses": "Ingress", "namespacemaps": "NamespaceMap",
	"networkconfigs": "NetworkConfig", "pods": "Pod", "resourceoffers": "ResourceOffer",
	"resourcerequests": "ResourceRequest", "secrets": "Secret", "services": "Service",
	"shadowendpointslices": "ShadowEndpointSlice", "shadowpods": "ShadowPod", "shadowvolumeclaims": "ShadowVolumeClaim",
}

// kindOf returns the kind that a request lists or watches; empty for other requests and kinds.
func kindOf(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	return kinds[path.Base(r.URL.Path)]
}

// versionOf returns the API version in the path of a request, for example v1 or federation.liqo.io/v1alpha1.
func versionOf(r *http.Request) string {
	before, _, _ := strings.Cut(r.URL.Path, "/namespaces/")
	_, version, _ := strings.Cut(strings.TrimPrefix(before, "/"), "/")
	return version
}

// validObjects responds to a list with a number of objects, and to a watch with eventsPerWatch events. It refuses
// watches that begin with all objects, so that the client lists them.
func (p *Provider) validObjects(w http.ResponseWriter, r *http.Request, listed int) {
	kind, version, query := kindOf(r), versionOf(r), r.URL.Query()
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	namespace := path.Base(path.Dir(r.URL.Path))
	object := func() string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":"x%d","resourceVersion":"1"}}`,
			version, kind, namespace, p.objects.Add(1))
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	write := func(text string) bool {
		_, err := io.WriteString(w, text)
		return err == nil
	}
	switch {
	case query.Has("sendInitialEvents"):
		w.WriteHeader(http.StatusUnprocessableEntity)
		write(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`)
	case query.Has("watch"):
		for range eventsPerWatch {
			if !write(`{"type":"ADDED","object":` + object() + "}\n") {
				return
			}
		}
	default:
		if !write(fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s`,
			version, kind+"List", object())) {
			return
		}
		for range listed - 1 {
			if !write("," + object()) {
				return
			}
		}
		write("]}")
	}
}
