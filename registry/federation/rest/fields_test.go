// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestUnknownFieldNamesTheNearest(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := onlyJSON{serializer.NewCodecFactory(scheme)}
	decoders := map[string]runtime.Decoder{}
	for _, info := range codecs.SupportedMediaTypes() {
		if info.StrictSerializer != nil {
			decoders[info.MediaType] = codecs.DecoderToVersion(info.StrictSerializer, v1alpha1.SchemeGroupVersion)
		}
	}
	const head = `"apiVersion":"federation.liqo.io/v1alpha1","kind":`
	for _, test := range []struct{ name, mediaType, body, want string }{
		{"a field of a spec", "application/json",
			head + `"NamespaceOffloading","spec":{"podOffloadingStratgy":"Local"}`,
			`unknown field "spec.podOffloadingStratgy"; did you mean "podOffloadingStrategy"?`},
		{"a field of the object", "application/json",
			head + `"NamespaceOffloading","spce":{}`, `unknown field "spce"; did you mean "spec"?`},
		{"a field of metadata", "application/json",
			head + `"NamespaceOffloading","metadata":{"label":{}}`, `unknown field "metadata.label"; did you mean "labels"?`},
		{"a field of an embedded struct", "application/json",
			head + `"ShadowPod","spec":{"pod":{"containers":[{},{"livenessProbe":{"tcpSockt":{}}}]}}`,
			`unknown field "spec.pod.containers[1].livenessProbe.tcpSockt"; did you mean "tcpSocket"?`},
		{"the embedded version", "application/json",
			head + `"NamespaceOffloading","apiVersoin":"v1"`, `unknown field "apiVersoin"; did you mean "apiVersion"?`},
		{"two fields", "application/json",
			head + `"ShadowPod","spec":{"pod":{"hostNetwrok":true,"volumes":[{"nam":"a"}]}}`,
			`unknown field "spec.pod.hostNetwrok"; did you mean "hostNetwork"?, ` +
				`unknown field "spec.pod.volumes[0].nam"; did you mean "name"?`},
		{"a field that resembles no other", "application/json",
			head + `"NamespaceOffloading","spec":{"colour":"red"}`, `unknown field "spec.colour"`},
		{"a field below an unknown field", "application/json",
			head + `"NamespaceOffloading","surprise":{"spce":{}}`, `unknown field "surprise"`},
		{"a duplicate field", "application/json",
			head + `"NamespaceOffloading","spec":{},"spec":{}`, `duplicate field "spec"`},
		{"the body of a subresource", "application/json",
			head + `"Offload","spec":{"podOffloadingStratgy":"Local"}`,
			`unknown field "spec.podOffloadingStratgy"; did you mean "podOffloadingStrategy"?`},
		{"YAML", "application/yaml",
			head + `"NamespaceOffloading","spec":{"podOffloadingStratgy":"Local"}`,
			`unknown field "spec.podOffloadingStratgy"; did you mean "podOffloadingStrategy"?`},
	} {
		t.Run(test.name, func(t *testing.T) {
			object, _, err := decoders[test.mediaType].Decode([]byte("{"+test.body+"}"), nil, nil)
			if want := "strict decoding error: " + test.want; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			// A request with fieldValidation=Warn stores the object.
			if object == nil || !runtime.IsStrictDecodingError(err) {
				t.Errorf("got the object %v with the error %#v", object, err)
			}
		})
	}
}
