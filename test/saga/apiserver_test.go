// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit"
)

var (
	scheme  = kit.NewScheme()
	decoder = serializer.NewCodecFactory(scheme).UniversalDeserializer()
	// served has the kinds that the controllers with caches use.
	served = map[schema.GroupVersion]map[string]metav1.APIResource{
		corev1.SchemeGroupVersion: kindsOf(
			"Namespace", false, "Node", false, "Pod", true, "PersistentVolume", false, "PersistentVolumeClaim",
			true, "Event", true,
			"ServiceAccount", true, "Secret", true),
		appsv1.SchemeGroupVersion:         kindsOf("Deployment", true),
		certificatesv1.SchemeGroupVersion: kindsOf("CertificateSigningRequest", false),
		coordinationv1.SchemeGroupVersion: kindsOf("Lease", true),
		rbacv1.SchemeGroupVersion:         kindsOf("RoleBinding", true, "ClusterRoleBinding", false),
		storagev1.SchemeGroupVersion: {
			"storageclasses":       {Name: "storageclasses", Kind: "StorageClass"},
			"csidrivers":           {Name: "csidrivers", Kind: "CSIDriver"},
			"csistoragecapacities": {Name: "csistoragecapacities", Kind: "CSIStorageCapacity", Namespaced: true},
		},
		v1alpha1.SchemeGroupVersion: kindsOf(
			"ForeignCluster", false, "ClusterInfo", false, "VirtualNode", true, "VirtualVolume", true,
			"NamespaceMap", true,
			"NamespaceOffloading", true,
			"ShadowVolumeClaim", true, "IdentityRequest", false, "PeeringToken", false, "ResourceRequest", true,
			"ResourceOffer", true, "ShadowPod", true, "TunnelEndpoint", true, "NetworkConfig", true),
	}
)

// kindsOf returns the resources of kinds. Each kind in the arguments is followed by whether it is
// namespaced.
func kindsOf(kinds ...any) map[string]metav1.APIResource {
	all := map[string]metav1.APIResource{}
	for i := 0; i < len(kinds); i += 2 {
		kind := kinds[i].(string)
		name := strings.ToLower(kind) + "s"
		all[name] = metav1.APIResource{Name: name, Kind: kind, Namespaced: kinds[i+1].(bool)}
	}
	return all
}

// apiServer serves a store by HTTP. It has those features of an API server that controllers with
// controller-runtime use.
type apiServer struct {
	store *store
	// allows reports whether the client may send a request for the resource of a key and a
	// subresource.
	allows func(key, string) bool
}

// apiRequest is the parsed path of a request.
type apiRequest struct {
	key
	kind        schema.GroupVersionKind
	subresource string
}

// ServeHTTP responds to discovery, and to requests that read, watch and write objects.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if answer := discovery(r.URL.Path); answer != nil {
		write(w, http.StatusOK, answer)
		return
	}
	named, err := parse(r.URL.Path)
	if err == nil && !s.allows(named.key, named.subresource) {
		err = apierrors.NewForbidden(named.resource.GroupResource(), named.name, errors.New("a peer may not request it"))
	}
	if err == nil && r.URL.Query().Get("watch") != "" {
		err = s.watch(w, r, named)
		if err == nil {
			return
		}
	}
	var answer runtime.Object
	if err == nil {
		answer, err = s.answer(r, named)
	}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		write(w, http.StatusOK, answer)
	case errors.As(err, &status):
		body := status.Status()
		body.Kind, body.APIVersion = "Status", "v1"
		write(w, int(body.Code), &body)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func write(w http.ResponseWriter, code int, answer any) {
	encoded, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	// An error means that the client has disconnected.
	_, _ = w.Write(encoded)
}

// discovery returns the response to a discovery request, or nil for any other path.
func discovery(path string) any {
	switch path {
	case "/api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		groups := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for version := range served {
			if named := (metav1.GroupVersionForDiscovery{GroupVersion: version.String(),
				Version: version.Version}); version.Group != "" {
				groups.Groups = append(groups.Groups, metav1.APIGroup{
					Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{named}, PreferredVersion: named,
				})
			}
		}
		return groups
	}
	for version, kinds := range served {
		if path == "/apis/"+version.String() || path == "/api/"+version.String() {
			list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				GroupVersion: version.String()}
			for _, resource := range kinds {
				list.APIResources = append(list.APIResources, resource)
			}
			return list
		}
	}
	return nil
}

func parse(path string) (apiRequest, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var r apiRequest
	if len(parts) > 2 && parts[0] == "api" {
		r.resource.Version, parts = parts[1], parts[2:]
	} else if len(parts) > 3 {
		r.resource.Group, r.resource.Version, parts = parts[1], parts[2], parts[3:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	kind, ok := served[r.resource.GroupVersion()][parts[0]]
	if !ok || len(parts) > 3 {
		return r, apierrors.NewNotFound(r.resource.GroupResource(), path)
	}
	r.resource.Resource, r.kind = parts[0], r.resource.GroupVersion().WithKind(kind.Kind)
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = parts[2]
	}
	return r, nil
}

// answer returns the response to a request that reads or writes objects, except watches.
func (s *apiServer) answer(r *http.Request, named apiRequest) (runtime.Object, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var found object
	switch {
	case r.Method == http.MethodGet && named.name == "":
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		list, err := s.store.list(scheme, named.kind, named.key, selector)
		if err != nil {
			return nil, err
		}
		list.GetObjectKind().SetGroupVersionKind(named.kind.GroupVersion().WithKind(named.kind.Kind + "List"))
		return list, nil
	case r.Method == http.MethodGet:
		found, err = s.store.get(named.key)
	case r.Method == http.MethodPost:
		wanted, _, decodeErr := decoder.Decode(body, nil, nil)
		if decodeErr != nil {
			return nil, apierrors.NewBadRequest(decodeErr.Error())
		}
		named.name = wanted.(object).GetName()
		found, err = s.store.create(named.key, wanted.(object))
	case r.Method == http.MethodPut:
		wanted, _, decodeErr := decoder.Decode(body, nil, nil)
		if decodeErr != nil {
			return nil, apierrors.NewBadRequest(decodeErr.Error())
		}
		found, err = s.store.update(named.key, wanted.(object), named.subresource)
	case r.Method == http.MethodPatch:
		found, err = s.store.patch(named.key, body, named.subresource)
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		if len(body) > 0 {
			if _, _, err := decoder.Decode(body, nil, &options); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess},
			s.store.delete(named.key, options.Preconditions)
	default:
		return nil, apierrors.NewMethodNotSupported(named.resource.GroupResource(), r.Method)
	}
	if err != nil {
		return nil, err
	}
	found.GetObjectKind().SetGroupVersionKind(named.kind)
	return found, nil
}

// watch sends events until the client ends the request. It does not support initial events, so
// clients have to list before.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, named apiRequest) error {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		return apierrors.NewBadRequest("sendInitialEvents is not served")
	}
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	events := s.store.watch(named.key, query.Get("resourceVersion"), selector)
	defer events.Stop()
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(http.StatusOK)
	for {
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return nil
		case event, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			event.Object.GetObjectKind().SetGroupVersionKind(named.kind)
			encoded, err := json.Marshal(event.Object)
			if err != nil {
				panic(err)
			}
			if _, err := fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", event.Type, encoded); err != nil {
				return nil
			}
		}
	}
}
