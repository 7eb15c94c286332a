//! Values of ONNX Runtime over memory that somebody else owns.
//!
//! The runtime is told an address and trusts it: that it stays valid as long as the value is used is for the caller to see to, which
//! is why the functions here are the only ones that make such values.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use ort::AsPointer;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::sys::ONNXTensorElementDataType as Number;
use ort::value::DynValue;

use crate::backend::Weight;
use crate::tensor::Element;

/// A weight as the runtime's value. The weight must outlive every session that is given it.
pub(super) fn weight_value(weight: &Weight) -> Result<DynValue, ort::Error> {
    let host = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Device, MemoryType::CPUInput)?;
    // SAFETY: the runtime only reads weights, within the bytes given; stages keep what owns them.
    unsafe {
        value_at(&host, weight.data.as_ptr() as usize, weight.data.len(), weight.element, &weight.shape)
    }
}

/// A value at an address.
///
/// # Safety
///
/// From `address` on, `bytes` bytes of the memory that `info` describes must stay valid as long as the value is used; whoever runs a
/// session that writes the value must own them.
pub(super) unsafe fn value_at(
    info: &MemoryInfo<'_>,
    address: usize,
    bytes: usize,
    element: Element,
    shape: &[i64],
) -> Result<DynValue, ort::Error> {
    let mut made: *mut ort::sys::OrtValue = ptr::null_mut();
    // SAFETY: the address is the caller's to keep valid; everything else lives through the call.
    let status = unsafe {
        (ort::api().CreateTensorWithDataAsOrtValue)(
            info.ptr(),
            address as *mut c_void,
            bytes,
            shape.as_ptr(),
            shape.len(),
            number(element),
            &mut made,
        )
    };
    // SAFETY: the status is the one that was just returned.
    unsafe { ort::Error::result_from_status(status) }?;
    let made = NonNull::new(made).ok_or_else(|| ort::Error::new("the runtime made no value"))?;
    // SAFETY: it was just made, and nobody else has it.
    Ok(unsafe { DynValue::from_ptr(made, None) })
}

/// Where a tensor of the runtime's lies, on whatever device.
pub(super) fn address_of(value: &DynValue) -> Result<usize, ort::Error> {
    let mut address: *mut c_void = ptr::null_mut();
    // SAFETY: the value is a live one of the runtime's, which only tells where it is.
    let status = unsafe { (ort::api().GetTensorMutableData)(value.ptr().cast_mut(), &mut address) };
    // SAFETY: the status is the one that was just returned.
    unsafe { ort::Error::result_from_status(status) }?;
    Ok(address as usize)
}

/// An element type as the runtime calls it.
fn number(element: Element) -> Number {
    match element {
        Element::F16 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
        Element::BF16 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
        Element::F32 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
        Element::F64 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
        Element::I8 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,
        Element::I16 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
        Element::I32 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,
        Element::I64 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
        Element::U8 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
        Element::U16 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
        Element::U32 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32,
        Element::U64 => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
        Element::Bool => Number::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL,
    }
}
