// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"liqo.io/federation/apiserver/apis/federation/install"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

var (
	// Scheme contains the types of all versions of the federation API.
	Scheme = runtime.NewScheme()
	// Codecs encode and decode the types of Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)
	// StorageCodec encodes stored objects in the served version as protobuf, and decodes
	// protobuf and JSON.
	StorageCodec = Codecs.CodecForVersions(protobuf.NewSerializer(Scheme, Scheme), Codecs.UniversalDeserializer(),
		v1alpha1.SchemeGroupVersion, runtime.InternalGroupVersioner)
)

func init() {
	install.Install(Scheme)

	// The resource placementreviews has the kind AdmissionReview, which has no internal version; v1 is
	// registered as one.
	utilruntime.Must(admissionv1.AddToScheme(Scheme))
	Scheme.AddKnownTypes(schema.GroupVersion{Group: admissionv1.GroupName, Version: runtime.APIVersionInternal},
		&admissionv1.AdmissionReview{})

	// Options of requests, and responses without an API group, for example Status.
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(Scheme, v1)
	Scheme.AddUnversionedTypes(v1,
		&metav1.Status{},
		&metav1.APIVersions{},
		&metav1.APIGroupList{},
		&metav1.APIGroup{},
		&metav1.APIResourceList{},
	)
}
