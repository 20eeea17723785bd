// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestValuesThatJSONCannotRepresentAreRefused(t *testing.T) {
	probe := func(port intstr.IntOrString) func(*v1alpha1.ShadowPod) {
		return func(p *v1alpha1.ShadowPod) {
			p.Spec.Pod.Containers[0].LivenessProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}}
		}
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := onlyJSON{serializer.NewCodecFactory(scheme)}
	decoder := protobuf.NewSerializer(scheme, scheme)
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.ShadowPod)
		want   string
	}{
		{"a pod", func(*v1alpha1.ShadowPod) {}, ""},
		{"an argument in UTF-8", func(p *v1alpha1.ShadowPod) { p.Spec.Pod.Containers[0].Args = []string{"città"} }, ""},
		{"a port with a number", probe(intstr.FromInt32(80)), ""},
		{"a port with a name", probe(intstr.FromString("http")), ""},
		{"an amount", func(p *v1alpha1.ShadowPod) {
			p.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		}, ""},
		{"bytes in an argument", func(p *v1alpha1.ShadowPod) { p.Spec.Pod.Containers[0].Args = []string{"a", "\xff"} },
			"spec.pod.containers[0].args[1]: must be valid UTF-8"},
		{"bytes in an annotation", func(p *v1alpha1.ShadowPod) { p.Annotations = map[string]string{"a": "\xff"} },
			`metadata.annotations["a"]: must be valid UTF-8`},
		{"bytes in a key", func(p *v1alpha1.ShadowPod) { p.Spec.Pod.NodeSelector = map[string]string{"\xff": "a"} },
			`spec.pod.nodeSelector["\xff"]: must be valid UTF-8`},
		{"a port of an unknown type", probe(intstr.IntOrString{Type: 7}),
			"spec.pod.containers[0].livenessProbe.tcpSocket.port: must be an integer or a string"},
		{"a time in ten thousand years", func(p *v1alpha1.ShadowPod) {
			p.CreationTimestamp = metav1.Date(12026, time.November, 25, 0, 0, 0, 0, time.UTC)
		}, "metadata.creationTimestamp: must be in the years 0 to 9999"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &v1alpha1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web-rome", Name: "web"},
				Spec: v1alpha1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "web",
					Image: "web:1"}}}},
			}
			test.change(pod)
			body, err := runtime.Encode(codecs.EncoderForVersion(decoder, v1alpha1.SchemeGroupVersion), pod)
			if err != nil {
				t.Fatal(err)
			}
			object, _, err := codecs.DecoderToVersion(decoder, v1alpha1.SchemeGroupVersion).Decode(body, nil, nil)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := json.Marshal(object); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Error() != test.want || object != nil {
				t.Errorf("got %v, %v, want %q", object, err, test.want)
			}
		})
	}
}

func TestObjectsOfOtherKindsAreRefused(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := onlyJSON{serializer.NewCodecFactory(scheme)}
	decoder := codecs.DecoderToVersion(serializer.NewCodecFactory(scheme).UniversalDeserializer(),
		v1alpha1.SchemeGroupVersion)
	required := v1alpha1.SchemeGroupVersion.WithKind("Peering")
	const version = `"apiVersion":"federation.liqo.io/v1alpha1"`
	for body, want := range map[string]string{
		`{` + version + `,"kind":"Peering"}`: "",
		`{}`:                                 "",
		`{` + version + `,"kind":"Offload"}`: "federation.liqo.io/v1alpha1 and Peering",
		`{` + version + `,"kind":"Pering"}`:  "federation.liqo.io/v1alpha1 and Peering",
		`{"apiVersion":"v1","kind":"Pod"}`:   "federation.liqo.io/v1alpha1 and Peering",
		`{` + version + `,"kind":"` + strings.Repeat("P", 1000) + `"}`: "federation.liqo.io/v1alpha1 and Peering",
	} {
		_, _, err := decoder.Decode([]byte(body), &required, nil)
		if (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || len(err.Error()) > 300) {
			t.Errorf("%.100s: got %v, want an error with %q", body, err, want)
		}
	}
}
